"""One `create`, with this machine's /run, lock and engines replaced."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core import group_files
from gpuprov.core.errors import EngineError, HostNotReady
from gpuprov.core.queue import Queue
from gpuprov.gpu.allocate import Lease
from gpuprov.runtime import create, records, removal
from gpuprov.runtime.create import REFUSED, main
from gpuprov.runtime.edit import LEASE
from gpuprov.runtime.engines import Place, Told
from gpuprov.runtime.settings import Settings, render_settings
from gpuprov.shapes.base import encode
from gpuprov.shapes.gate_policy import GatePolicy, PolicyMount, PolicyRefusals, PolicyVariables
from tests.unit.runtime.simulated import simulated_host

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

UUIDS = [gpu.uuid for gpu in simulated_host(2).gpus]
ENGINES_SAY = [Told()]
TOUCHES: list[str | None] = [""]  # None for what the policy says
OPEN = {"linux": {"resources": {"devices": [{"allow": True, "access": "rwm"}]}}}


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Makes a container; tells the exit code, and what was written to the log."""
    monkeypatch.setattr(group_files, "LOCK_FOLDER", tmp_path / "lock")
    monkeypatch.setattr(records, "FOLDER", tmp_path / "leases")
    monkeypatch.setattr(removal, "FOLDER", tmp_path / "removals")
    monkeypatch.setattr(create, "ask_engines", lambda _: ENGINES_SAY[0])
    ENGINES_SAY[0] = Told()
    TOUCHES[0] = ""
    policy = Settings(engines=(), simulation=simulated_host(2).document)
    (tmp_path / "settings.json").write_text(render_settings(policy))

    def one(name: str, *env: str, **more: Any) -> tuple[int, str]:
        bundle = tmp_path / name
        (bundle / "rootfs").mkdir(parents=True, exist_ok=True)
        (bundle / "config.json").write_text(json.dumps({"process": {"env": list(env)}, **more}))
        log = bundle / "log"
        where = (str(tmp_path), str(os.getpid()), str(bundle), str(tmp_path / "moby"))
        touch = json.loads((tmp_path / "rules.json").read_text())["touch"] if TOUCHES[0] is None else TOUCHES[0]
        status = main([*where, name, str(log), "1", touch, ""])
        return status, log.read_text() if log.exists() else ""

    return one


def put_policy(tmp_path: Path, **told: Any) -> None:
    """Into force, as `gate up` does."""
    (tmp_path / "rules.json").write_bytes(encode(GatePolicy(**told)))
    TOUCHES[0] = None


def spec_of(tmp_path: Path, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads((tmp_path / name / "config.json").read_text())
    return spec


def held(tmp_path: Path, name: str) -> list[str]:
    spec = json.loads((tmp_path / name / "config.json").read_text())
    note = spec.get("annotations", {}).get(LEASE)
    return json.loads(note)["gpus"] if note else []


def test_the_sequence_of_the_contract(make: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    assert make("a", "HOUDINI_GPU_REQUESTED=1") == (0, "")
    assert make("b", "HOUDINI_GPU_REQUESTED=1") == (0, "")
    assert (held(tmp_path, "a"), held(tmp_path, "b")) == ([UUIDS[0]], [UUIDS[1]])
    status, log = make("c", "HOUDINI_GPU_REQUESTED=1")
    assert (status, held(tmp_path, "c")) == (REFUSED, [])
    said = json.loads(log)
    assert said["level"] == "error"
    assert all(word in said["msg"] for word in ("not enough GPUs", "a (exclusive", "b (exclusive", "GPUPROV_WAIT"))
    (tmp_path / "leases/b").unlink()
    assert make("d", "HOUDINI_GPU_REQUESTED=1") == (0, "")
    assert held(tmp_path, "d") == [UUIDS[1]]


def test_where_systemd_is_in_charge_it_can_know_the_devices(
    make: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    placed: list[str] = []
    monkeypatch.setattr(create, "place_by_number", lambda devices: placed.extend(one.path for one in devices))
    assert make("a", "GPUPROV_GPUS=1", linux={"cgroupsPath": "/docker/a"}) == (0, "")
    assert not placed
    assert make("b", "GPUPROV_GPUS=1", linux={"cgroupsPath": "system.slice:docker:b"}) == (0, "")
    assert placed == ["/dev/nvidia1", "/dev/nvidiactl"]


def test_a_wait_ends_with_the_engine_s_process(
    make: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make("a", "GPUPROV_GPUS=2") == (0, "")
    looks = [False]  # then it is gone, and nobody is to wait for what nobody will start
    monkeypatch.setattr(create, "is_gone", lambda _: not looks or looks.pop())
    status, log = make("b", "GPUPROV_GPUS=1", "GPUPROV_WAIT=10h")
    assert (status, "has ended the runtime" in log) == (REFUSED, True)
    assert not [*Queue(group_files.Gates()).waiting()]


def test_an_id_whose_record_nobody_would_read_is_refused(make: Callable[..., tuple[int, str]]) -> None:
    status, log = make(".a", "GPUPROV_GPUS=1")
    assert (status, "this id is not possible" in log) == (REFUSED, True)


def test_a_silent_docker_ends_a_start_before_it_takes_the_lock(make: Callable[..., tuple[int, str]]) -> None:
    """It might be a node, whose maker has the lock and waits for Docker."""
    ENGINES_SAY[0] = Told(silent={"docker": EngineError("docker does not respond", evidence="2 s", fix="wait")})
    status, log = make("a", "GPUPROV_GPUS=1")
    assert (status, "docker does not respond" in log) == (REFUSED, True)


@pytest.mark.parametrize(("label", "expected"), [("of=others", 0), ("gpuprov.cluster", REFUSED)])
def test_while_docker_starts_its_files_tell_unless_there_is_a_node(
    make: Callable[..., tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    label: str,
    expected: int,
) -> None:
    """It begins containers with a restart policy before it answers anybody."""
    place = Place(engine="docker", sockets=("/nowhere",))
    policy = Settings(engines=(place,), data_root=str(tmp_path / "data"), simulation=simulated_host(2).document)
    (tmp_path / "settings.json").write_text(render_settings(policy))
    folder = tmp_path / "data/containers/a"
    folder.mkdir(parents=True)
    (folder / "config.v2.json").write_text(json.dumps({"Name": "/train", "Config": {"Labels": {label: "x"}}}))
    ENGINES_SAY[0] = Told(silent={"docker": EngineError("docker does not respond", evidence="2 s", fix="wait")})
    asked: list[int] = []

    def ask(places: Sequence[Place]) -> Told:
        asked.append(len(places))
        return ENGINES_SAY[0] if places else Told()

    monkeypatch.setattr(create, "ask_engines", ask)
    status, log = make("a", "GPUPROV_GPUS=1")
    assert (status, "docker does not respond" in log) == (expected, bool(expected))
    assert asked == ([1] if expected else [1, 0])
    if not expected:
        assert json.loads((tmp_path / "leases/a").read_text())["name"] == "train"


STEPS = ("write_record", "make_targets", "replace_file", "add_gpus", "render_additions")


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_start_that_is_killed_at_any_step_leaves_no_lease(
    make: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: str, moment: str
) -> None:
    """It is the process that would become runc; another container, and the same one again, get the GPUs."""
    done = getattr(create, step)

    def die(*args: Any, **more: Any) -> Any:
        if moment == "after":
            done(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        monkeypatch.setattr(create, step, die)
        make("a", "GPUPROV_GPUS=2")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert records.read_records() == ()
    assert make("b", "GPUPROV_GPUS=2") == (0, "")
    (tmp_path / "leases/b").unlink()
    assert make("a", "GPUPROV_GPUS=2") == (0, "")
    assert held(tmp_path, "a") == UUIDS


def test_the_same_container_keeps_no_second_gpu(make: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    assert make("a", "GPUPROV_GPUS=2") == (0, "")
    assert make("a", "GPUPROV_GPUS=2") == (0, "")
    assert held(tmp_path, "a") == UUIDS


def test_nodes_of_engines_are_respected_and_a_silent_one_is_not_passed_over(
    make: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    lease = Lease(node="c000", gpus=(UUIDS[0],), sharing="shared", engine="lxd", cluster="lab", status="stopped")
    ENGINES_SAY[0] = Told(leases=(lease,), names={"a": "train"})
    assert make("a", "GPUPROV_GPUS=1") == (0, "")
    assert held(tmp_path, "a") == [UUIDS[1]]
    assert json.loads((tmp_path / "leases/a").read_text())["name"] == "train"
    silence = HostNotReady("lxd does not respond", evidence="no response within 2 s", fix="gpuprov doctor")
    ENGINES_SAY[0] = Told(silent={"lxd": silence})
    status, log = make("b", "GPUPROV_GPUS=1")
    assert status == REFUSED
    assert "no response within 2 s" in log


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (["GPUPROV_GPUS=3"], "fewer than 3 GPUs"),
        (["GPUPROV_GPUS=x\ny"], "there is no GPU"),
        (["HOUDINI_GPU_REQUESTED=-1"], "not a number of GPUs"),
    ],
)
def test_a_refusal_is_one_line_whatever_was_asked(
    make: Callable[..., tuple[int, str]], env: list[str], words: str
) -> None:
    status, log = make("a", *env)
    assert status == REFUSED
    assert len(log.splitlines()) == 1
    assert words in json.loads(log)["msg"]


def test_what_asks_for_nothing_is_left_as_it_was(make: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    for env in (["PATH=/bin"], ["NVIDIA_VISIBLE_DEVICES=void"], ["HOUDINI_GPU_REQUESTED=0"]):
        assert make("a", *env) == (0, "")
        assert json.loads((tmp_path / "a/config.json").read_text()) == {"process": {"env": env}}
    assert not (tmp_path / "leases").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000])
def test_a_config_that_nobody_can_read_is_refused_in_words(
    make: Callable[..., tuple[int, str]], tmp_path: Path, content: str
) -> None:
    make("a")
    (tmp_path / "a/config.json").write_text(content)
    arguments = [str(tmp_path), str(os.getpid()), str(tmp_path / "a"), "/r", "a", str(tmp_path / "log"), "1", "", ""]
    assert main(arguments) == REFUSED
    assert "config.json cannot be used" in (tmp_path / "log").read_text()


def test_a_large_config_is_refused_in_words(
    make: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create, "_MOST_BYTES", 2**20)
    status, log = make("a", "GPUPROV_GPUS=1", *["x" * 2**20])
    assert status == REFUSED
    assert "larger than 1 MiB" in log


def test_another_container_of_the_same_id_keeps_its_gpus(make: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """People choose ids in containerd, and each of its namespaces has its own."""
    assert make("a", "GPUPROV_GPUS=1") == (0, "")
    path = tmp_path / "leases/a"
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "state": "/run/other/a"}))
    status, log = make("a", "GPUPROV_GPUS=1")
    assert (status, "another container with the id a holds GPUs" in log) == (REFUSED, True)
    assert json.loads(path.read_text())["state"] == "/run/other/a"


def test_many_variables_and_values_of_many_lines_are_kept(make: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    lines = [*(f"V{number}=x" for number in range(10_000)), "X=a\nGPUPROV_WAIT=never\nNVIDIA_VISIBLE_DEVICES=all"]
    assert make("a", *lines, "GPUPROV_GPUS=1") == (0, "")
    said = json.loads((tmp_path / "a/config.json").read_text())["process"]["env"]
    assert said[: len(lines)] == lines


def test_without_its_policy_it_says_what_to_type(make: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    (tmp_path / "settings.json").unlink()
    status, log = make("a", "GPUPROV_GPUS=1")
    assert status == REFUSED
    assert "gpuprov gate up" in log


def test_a_node_of_gpuprov_is_left_as_it_is(make: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    ENGINES_SAY[0] = Told(nodes=frozenset({"a"}))
    assert make("a", "HOUDINI_GPU_REQUESTED=1") == (0, "")
    assert held(tmp_path, "a") == []


FORCED = PolicyVariables(set={"LANG": "C"}, force={"A": "x=y\nz"})
NO_DEVICES = PolicyRefusals(devices=True, mounts_outside=())


def test_a_policy_for_everything_touches_what_asks_for_no_gpu(
    make: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    put_policy(tmp_path, touch="everything", variables=FORCED, refuse=NO_DEVICES)
    assert make("a", "LANG=de", "A=1") == (0, "")
    assert spec_of(tmp_path, "a") == {"process": {"env": ["LANG=de", "A=x=y\nz"]}}
    status, log = make("b", **OPEN)
    assert (status, "refuse.devices: every device" in log) == (REFUSED, True)
    assert spec_of(tmp_path, "b") == {"process": {"env": []}, **OPEN}


def test_a_policy_that_removes_notes_whom_it_touches_and_starts(
    make: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    put_policy(tmp_path, remove=True, refuse=NO_DEVICES)
    assert make("plain", "PATH=/") == (0, "")
    assert make("refused", "GPUPROV_GPUS=1", **OPEN)[0] == REFUSED
    assert make("late", "GPUPROV_GPUS=3")[0] == REFUSED
    assert not (tmp_path / "removals").exists()
    assert make("a", "GPUPROV_GPUS=1") == (0, "")
    judged, state = (tmp_path / "removals/a").read_text().split()
    assert (len(judged), state) == (len("2026-01-01T00:00:00"), str(tmp_path / "moby/a"))
    put_policy(tmp_path, touch="everything", remove=True)
    ENGINES_SAY[0] = Told(nodes=frozenset({"node"}))
    libpod = {"annotations": {"io.container.manager": "libpod"}}
    assert [make("plain", "PATH=/"), make("node", "PATH=/"), make("of-podman", **libpod)] == [(0, "")] * 3
    assert sorted(path.name for path in (tmp_path / "removals").iterdir()) == ["a", "plain"]


def test_a_policy_for_requests_touches_those_alone(make: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    put_policy(tmp_path, variables=FORCED, refuse=NO_DEVICES)
    assert make("a", "PATH=/", **OPEN) == (0, "")
    assert spec_of(tmp_path, "a")["process"]["env"] == ["PATH=/"]
    for env in ("GPUPROV_GPUS=1", "HOUDINI_ENABLED=true"):
        status, log = make("b", env, **OPEN)
        assert (status, "refuse.devices" in log) == (REFUSED, True)
    assert make("c", "GPUPROV_GPUS=1") == (0, "")
    assert held(tmp_path, "c") == [UUIDS[0]]
    assert "A=x=y\nz" in spec_of(tmp_path, "c")["process"]["env"]


def test_gpus_that_were_leased_before_are_no_devices_that_a_policy_refuses(
    make: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    (tmp_path / "srv").mkdir()
    mounts = (PolicyMount(source=str(tmp_path / "srv"), target="/srv"),)
    put_policy(tmp_path, touch="everything", refuse=NO_DEVICES, mounts=mounts)
    assert make("a", "GPUPROV_GPUS=1") == (0, "")
    first = spec_of(tmp_path, "a")
    assert first["mounts"][0]["destination"] == "/srv"
    assert (tmp_path / "a/rootfs/srv").is_dir()
    again = {key: value for key, value in first.items() if key != "process"}
    assert make("a", *first["process"]["env"], **again) == (0, "")
    second = spec_of(tmp_path, "a")
    assert [one["destination"] for one in second["mounts"]] == [one["destination"] for one in first["mounts"]]
    assert second["linux"] == first["linux"]


def test_a_forged_note_hides_nothing_from_a_policy(make: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """Docker 24 takes annotations from users: what one says is left out of the container, not out of the judgement."""
    put_policy(tmp_path, touch="everything", refuse=NO_DEVICES)
    evil = {
        "destination": "/etc",
        "type": "bind",
        "source": "/etc",
        "options": ["bind", "ro", "nosuid", "nodev", "rprivate"],
    }
    device = {"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}
    note = json.dumps({"files": ["/etc"], "devices": [device]})
    rule = {"allow": True, "type": "c", "major": 195, "minor": 0, "access": "rw"}
    linux = {"devices": [device], "resources": {"devices": [rule]}}
    assert make("a", annotations={LEASE: note, "gpuprov.policy": note}, mounts=[evil], linux=linux) == (0, "")
    spec = spec_of(tmp_path, "a")
    assert (spec["mounts"], spec["linux"]["devices"], spec["linux"]["resources"]["devices"]) == ([], [], [])


def test_a_mount_of_the_policy_follows_no_link_of_the_image(
    make: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    (tmp_path / "srv").mkdir()
    (tmp_path / "a/rootfs").mkdir(parents=True)
    (tmp_path / "a/rootfs/home").symlink_to("/etc")
    put_policy(tmp_path, touch="everything", mounts=(PolicyMount(source=str(tmp_path / "srv"), target="/home/x"),))
    status, log = make("a")
    assert (status, "no place for /home/x" in log) == (REFUSED, True)
    (tmp_path / "srv").rmdir()
    status, log = make("b")
    assert (status, "which is not there" in log) == (REFUSED, True)


def test_without_a_policy_that_can_be_read_only_whom_it_touches_is_refused(
    make: Callable[..., tuple[int, str]],
) -> None:
    TOUCHES[0] = "requests"
    assert make("a") == (0, "")
    status, log = make("b", "GPUPROV_GPUS=1")
    assert (status, "gate up --policy" in log) == (REFUSED, True)
    TOUCHES[0] = "everything"
    status, log = make("c")
    assert (status, "gate up --policy" in log) == (REFUSED, True)


def test_a_node_of_gpuprov_is_not_judged_and_docker_is_asked_only_where_something_would_change(
    make: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    put_policy(tmp_path, touch="everything", refuse=NO_DEVICES)
    ENGINES_SAY[0] = Told(nodes=frozenset({"a"}))
    assert make("a", **OPEN) == (0, "")
    ENGINES_SAY[0] = Told(silent={"docker": EngineError("docker does not respond", evidence="2 s", fix="wait")})
    assert make("b") == (0, "")
    assert make("b", **OPEN)[0] == REFUSED


def test_a_project_holds_at_most_so_many_gpus_at_once(make: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    put_policy(tmp_path, gpus_per_project=1)
    ENGINES_SAY[0] = Told(projects={"a": "one", "b": "one", "c": "two"}, names={"a": "trainer"})
    assert make("a", "GPUPROV_GPUS=1") == (0, "")
    status, log = make("b", "GPUPROV_GPUS=1", "GPUPROV_WAIT=10h")
    assert status == REFUSED
    assert all(words in log for words in ("the project one may hold 1 GPU at once", "1 held by trainer"))
    assert make("c", "GPUPROV_GPUS=1") == (0, "")
    (tmp_path / "leases/a").unlink()
    assert make("b", "GPUPROV_GPUS=1")[0] == 0
    (tmp_path / "leases/b").unlink()
    (tmp_path / "leases/c").unlink()
    status, log = make("d", "GPUPROV_GPUS=2")
    assert (status, "a container without a project may hold 1 GPU" in log) == (REFUSED, True)
    assert make("e", "GPUPROV_GPUS=1") == (0, "")
