"""Containers of a real Docker that lease GPUs by the runtime: a dockerd of these tests' own, with a net of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.waiting import Wait
from gpuprov.machine.runtime_program import program_for
from gpuprov.runtime.removal import AFTER_S
from gpuprov.spec.docker_run import parse_docker_run
from tests.e2e.conftest import output
from tests.own_docker import find_processes, own_docker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.own_docker import Done, OwnDocker

IMAGE = "gpte-gate"
PYTHON_IMAGE = "gpte-python"
STACK = Path(__file__).parents[2] / "examples/stack/compose.yaml"
OTHERS = '{"labels": ["of=others"]}'
GPUS = 4
QUICK_S = 30.0


@pytest.fixture(scope="module")
def registered(docker: object) -> Iterator[OwnDocker]:  # noqa: ARG001 - it is installed
    """A Docker that knows the runtime; the machine's other engines, whose nodes may hold GPUs, are not asked."""
    with own_docker(settings=OTHERS) as one:
        one.load_image(IMAGE)
        one.load_image(f"{IMAGE}-link", link="/proc/self/root/etc")
        one.gpuprov("gate", "up", "--default")
        one.only_itself()
        yield one


@pytest.fixture
def gate(registered: OwnDocker) -> Iterator[OwnDocker]:
    registered.clear()
    yield registered
    registered.clear()


def test_up_merges_settings_and_is_done_once(gate: OwnDocker) -> None:
    settings = json.loads((gate.folder / "daemon.json").read_text())
    assert settings["labels"] == ["of=others"]
    assert settings["default-runtime"] == "gpuprov-default"
    assert json.loads((gate.folder / "daemon.json.before-gpuprov").read_text()) == {"labels": ["of=others"]}
    status = gate.told("gate", "status")
    assert (status["registered"], status["default"], status["current"]) == (True, True, True)
    assert status["gpus_option"] == "works"
    gate.gpuprov("gate", "check")


def test_the_sequence_of_the_contract(gate: OwnDocker) -> None:
    for number in range(GPUS):
        assert gate.begin(f"c{number}", "-e", "HOUDINI_GPU_REQUESTED=1").returncode == 0
        devices = gate.docker("exec", f"c{number}", "ls", "/dev").stdout.split()
        assert [name for name in devices if name.startswith("nvidia")] == [f"nvidia{number}", "nvidiactl"]
    refused = gate.begin("late", "-e", "HOUDINI_GPU_REQUESTED=1")
    assert refused.returncode != 0
    assert "not enough GPUs for late" in refused.stderr
    assert all(f"c{number} (exclusive, docker)" in refused.stderr for number in range(GPUS))
    assert "GPUPROV_WAIT" in refused.stderr
    assert gate.holders() == {f"c{number}": 1 for number in range(GPUS)}
    gate.docker("rm", "-f", "c1")
    assert gate.begin("again", "-e", "HOUDINI_GPU_REQUESTED=1").returncode == 0
    assert "nvidia1\n" in gate.docker("exec", "again", "ls", "/dev").stdout
    assert (
        "No such device or address" in gate.docker("exec", "again", "head", "-c1", "/dev/nvidia1").stderr
    )  # no driver: ENXIO
    listed = gate.docker("exec", "again", "sh", "/usr/bin/nvidia-smi", "-L").stdout
    assert re.fullmatch(r"GPU 0: SIMULATED \(UUID: GPU-\S+1\)\n", listed)


def test_the_option_gpus_takes_free_ones_and_an_image_s_variable_none(gate: OwnDocker) -> None:
    assert gate.begin("first", "--gpus", "1", runtime="").returncode == 0
    two = gate.run("--rm", "--gpus", "2", "-e", "NVIDIA_VISIBLE_DEVICES=all", "--", "ls /dev", runtime="")
    assert [name for name in two.stdout.split() if "nvidia" in name] == ["nvidia1", "nvidia2", "nvidiactl"]
    plain = gate.run("--rm", "-e", "NVIDIA_VISIBLE_DEVICES=all", "--", "ls /dev", runtime="")
    assert (plain.returncode, "nvidia" in plain.stdout) == (0, False)
    named = gate.run("--rm", "-e", "NVIDIA_VISIBLE_DEVICES=1,2", "--", "ls /dev")
    assert [name for name in named.stdout.split() if "nvidia" in name] == ["nvidia1", "nvidia2", "nvidiactl"]


@pytest.mark.parametrize("starts", [20, pytest.param(200, marks=pytest.mark.long)])
def test_many_starts_at_once_for_the_last_gpus(gate: OwnDocker, starts: int) -> None:
    with ThreadPoolExecutor(20) as pool:
        done = list(pool.map(lambda number: gate.begin(f"r{number}", "--gpus", "1", runtime=""), range(starts)))
    winners = [number for number, one in enumerate(done) if one.returncode == 0]
    assert len(winners) == GPUS, [one.stderr for one in done]
    assert gate.holders() == {f"r{number}": 1 for number in winners}
    assert len({gate.docker("exec", f"r{number}", "env").stdout.partition("DEVICES=")[2] for number in winners}) == 1
    seen = {gate.docker("exec", f"r{number}", "ls", "/dev").stdout for number in winners}
    assert len(seen) == GPUS


def test_a_start_waits_for_a_gpu_that_comes_free(gate: OwnDocker) -> None:
    gate.begin("holder", "--gpus", str(GPUS))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(gate.begin, "waits", "--gpus", "1", "-e", "GPUPROV_WAIT=60s")
        time.sleep(2)
        assert not waiting.done()
        assert gate.docker("ps", timeout_s=5).returncode == 0
        assert any("gpuprov-runtime" in line for line in gate.told("gpus")["waiting"])
        gate.docker("rm", "-f", "holder")
        assert waiting.result(QUICK_S).returncode == 0
    assert gate.holders() == {"waits": 1}
    late = gate.run("--rm", "-e", f"GPUPROV_GPUS={GPUS}", "-e", "GPUPROV_WAIT=1s")
    assert "waited 1 s for GPUs" in late.stderr


@pytest.mark.parametrize("victim", ["start.py", "gpuprov-runtime-default"])
def test_a_killed_runtime_keeps_no_gpu(gate: OwnDocker, victim: str) -> None:
    gate.begin("holder", "--gpus", str(GPUS))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(gate.begin, "killed", "--gpus", "1", "-e", "GPUPROV_WAIT=60s", runtime="")
        found: list[int] = []
        while not found and not waiting.done():
            found = find_processes(victim, str(gate.folder))
        os.kill(found[0], signal.SIGKILL)
        refused = waiting.result(QUICK_S)
    assert refused.returncode != 0
    gate.docker("rm", "-f", "holder", "killed")
    assert gate.run("--rm", "--gpus", str(GPUS), "--", "true", runtime="").returncode == 0


def test_hostile_variables_and_images_change_nothing(gate: OwnDocker) -> None:
    evil = [f"-e {name}=/evil" for name in ("LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "HOME")]
    many = [f"-e V{number}=x" for number in range(300)]
    done = gate.run("--rm", *evil, *many, "-e", "PATH=/bin", "--gpus", "1", "--", "ls /dev", runtime="")
    assert "nvidia0" in done.stdout, done.stderr
    before = sorted(Path("/etc").iterdir())
    linked = gate.run("--rm", "--gpus", "1", "--", "true", runtime="", image=f"{IMAGE}-link")
    assert "has no place for /usr/bin/nvidia-smi" in linked.stderr
    assert sorted(Path("/etc").iterdir()) == before
    assert gate.holders() == {}


def test_a_restarted_container_and_a_stopped_one(gate: OwnDocker) -> None:
    gate.begin("one", "--gpus", "1")
    gate.docker("restart", "-t", "0", "one")
    assert gate.holders() == {"one": 1}
    gate.docker("stop", "-t", "0", "one")
    assert gate.holders() == {}


def compose(gate: OwnDocker, project: str, *argv: str) -> Done:
    """Debian's docker-compose, or the plugin of today's Docker."""
    program = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    environment = {**gate.environment, "STACK_IMAGE": PYTHON_IMAGE, "COMPOSE_HTTP_TIMEOUT": "120"}
    return subprocess.run(
        [*program, "-f", str(STACK), "-p", project, *argv],
        env=environment, capture_output=True, text=True, check=False, timeout=4 * QUICK_S,
    )  # fmt: skip


def in_trainer(gate: OwnDocker, project: str, *argv: str) -> str:
    """What a Python program prints in the trainer of a copy."""
    (trainer,) = gate.docker("ps", "-q", "-f", f"label=com.docker.compose.project={project}",
                             "-f", "label=com.docker.compose.service=trainer").stdout.split()  # fmt: skip
    return gate.docker("exec", trainer, "python3", "-c", *argv).stdout


def ask(gate: OwnDocker, project: str, page: str, body: str = "", *, service: str = "trainer:9993") -> str:
    """What a service of a copy answers, asked from its trainer."""
    line = (
        "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], sys.argv[2].encode() or None).read().decode())"
    )
    return in_trainer(gate, project, line, f"http://{service}{page}", body)


NVML = """
import ctypes
nvml, gpu, text = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.create_string_buffer(96)
assert [nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(gpu))] == [0, 0]
for ask in (nvml.nvmlDeviceGetName, nvml.nvmlDeviceGetUUID):
    assert ask(gpu, text, 96) == 0
    print(text.value.decode())
"""


def test_two_copies_of_the_example_stack(gate: OwnDocker) -> None:
    from tests.contract.engines import DockerSite

    load = f"docker save {DockerSite().base_image()} | DOCKER_HOST=unix://{gate.socket} docker load"
    loaded = output("sh", "-c", load).split()[-1]
    assert gate.docker("tag", loaded, PYTHON_IMAGE).returncode == 0
    try:
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(lambda project: compose(gate, project, "up", "-d"), ("gpu1", "gpu2")))
        assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
        seen = [ask(gate, project, "/gpus") for project in ("gpu1", "gpu2")]
        uuids = {match for one in seen for match in re.findall(r"GPU 0: SIMULATED \(UUID: (\S+)\)", one)}
        assert len(uuids) == 2, seen
        assert all("HOUDINI_GPU_REQUESTED=1\n" in one and "GPU 1" not in one for one in seen)
        name, uuid = in_trainer(gate, "gpu1", NVML).splitlines()
        assert (name.startswith("SIMULATED "), uuid in seen[0]) == (True, True)
        assert ask(gate, "gpu1", "/cntname", service="policy-2:9991") == "policy-2\n\n"
        assert ask(gate, "gpu1", "/task", service="simulation-0:9992") == "simulation\n\n"
        assert "no GPU" in ask(gate, "gpu2", "/gpus", service="policy-0:9991")
        back = {"proto": "http", "host": "trainer", "port": 9993, "path": "/gpus"}
        assert ask(gate, "gpu2", "/callmeback", json.dumps(back), service="policy-1:9991").strip() == seen[1].strip()
        page = ask(gate, "gpu1", "/")
        assert (page.count("<tr><td>"), sum(uuid in page for uuid in uuids)) == (7, 1)
        gate.begin("rest", "--gpus", "2")
        with ThreadPoolExecutor(1) as pool:  # it waits in the runtime: Docker does not repeat what was refused
            third = pool.submit(compose, gate, "gpu3", "up", "-d", "trainer")
            time.sleep(3)
            assert not third.done()
            compose(gate, "gpu1", "down", "-t", "1")
            assert third.result(4 * QUICK_S).returncode == 0, third.result().stderr
        assert len(re.findall("UUID", ask(gate, "gpu3", "/gpus"))) == 1
    finally:
        for project in ("gpu1", "gpu2", "gpu3"):
            compose(gate, project, "down", "-t", "1")


def test_a_restart_policy_does_not_repeat_a_refused_start(gate: OwnDocker) -> None:
    gate.begin("holder", "--gpus", str(GPUS))
    assert gate.begin("late", "--restart", "always", "--gpus", "1").returncode != 0
    gate.docker("rm", "-f", "holder")
    time.sleep(2)
    assert gate.docker("inspect", "-f", "{{.State.Status}}", "late").stdout == "created\n"
    assert gate.docker("start", "late").returncode == 0


POLICY = """\
schema: gpuprov.gate-policy/v1
version: 1
touch: everything
mounts: [{source: FOLDER/shared, target: /srv}]
variables: {force: {A: "x=y z"}, set: {B: unset, PATH: none}}
user: $HOUDINI_USER
refuse:
  privileged: true
  namespaces: [pid, net, ipc, uts]
  mounts_outside: [FOLDER/shared]
  devices: true
  capabilities: true
gpus_per_project: 1
"""


@pytest.fixture
def ruled(gate: OwnDocker) -> Iterator[OwnDocker]:
    """With a policy in force."""
    shared = gate.folder / "shared"
    shared.mkdir(exist_ok=True)
    (shared / "file").touch()
    (gate.folder / "policy.yaml").write_text(POLICY.replace("FOLDER", str(gate.folder)))
    gate.gpuprov("gate", "up", "--policy", f"{gate.folder}/policy.yaml")
    gate.only_itself()
    yield gate
    gate.clear()
    gate.gpuprov("gate", "up", "--policy", "none")
    gate.only_itself()


def test_a_policy_adds_and_refuses_what_docker_starts(ruled: OwnDocker) -> None:
    done = ruled.run("--rm", "-e", "A=1", "-e", "B=own", "-v", "named:/n", "--", "env; ls /srv", runtime="")
    assert {"A=x=y z", "B=own", "file"} <= set(done.stdout.splitlines()), done
    assert "PATH=none" not in done.stdout
    options = ("--rm", "-e", "HOUDINI_USER=7:8", "--gpus", "1")
    done = ruled.run(*options, "--", "echo >/srv/mine; ls /dev; env", runtime="")
    assert "nvidia0" in done.stdout, done
    assert not (ruled.folder / "shared/mine").exists()  # another user may not write there
    evil = ("--opt", "type=none", "--opt", "o=bind", "--opt", "device=/etc")
    assert ruled.docker("volume", "create", *evil, "evil").returncode == 0
    link = ruled.folder / "link"
    link.symlink_to("/etc")
    for option, rule in (
        ("--privileged", "refuse.privileged: every device of the host can be opened"),
        ("-v /etc:/h", "refuse.mounts_outside: /etc at /h"),
        (f"-v {link}:/h", f"refuse.mounts_outside: {link}, which leads to /etc, at /h"),
        ("-v evil:/h", "refuse.mounts_outside: "),
        ("--pid host --uts host", "refuse.namespaces: pid, uts"),
        ("--device /dev/fuse", "refuse.devices: /dev/fuse"),
        ("--cap-add SYS_ADMIN", "refuse.capabilities: CAP_SYS_ADMIN"),
        ("-e HOUDINI_USER=root", "HOUDINI_USER=root is not a user"),
    ):
        refused = ruled.run("--rm", *option.split(), "--", "true", runtime="")
        assert (refused.returncode, rule in refused.stderr) == (125, True), refused.stderr
    words = ["-v", "/etc:/h", "-v", "evil:/e", "--pid", "host", "--device", "/dev/fuse", "--cap-add", "SYS_ADMIN"]
    explained = ruled.gpuprov("gate", "explain", "--", "docker", "run", *words, IMAGE, expect=1).stdout
    refused_for = re.findall(r"^refuse\.(\w+): refused: (.*)$", explained, re.MULTILINE)
    volume = f"{ruled.folder}/data/volumes/evil/_data"
    assert refused_for == [
        ("namespaces", "pid"),
        ("mounts_outside", f"/etc at /h, {volume} at /e"),
        ("devices", "/dev/fuse"),
        ("capabilities", "CAP_SYS_ADMIN"),
    ]
    assert ruled.docker("run", "--rm", "--network", "host", IMAGE, "ls").returncode == 125
    assert ruled.holders() == {}


REMOVING = "schema: gpuprov.gate-policy/v1\nversion: 1\ntouch: everything\nremove: true\n"
KEPT = {"again", "always", "running", "refused", "before"}


def test_a_policy_removes_what_has_ended_and_nothing_else(gate: OwnDocker) -> None:
    """`docker restart` keeps a container, and so does whatever else starts it again at once."""
    assert gate.run("--name", "before", "--", "true").returncode == 0
    (gate.folder / "policy.yaml").write_text(REMOVING)
    gate.gpuprov("gate", "up", "--policy", f"{gate.folder}/policy.yaml")
    gate.only_itself()
    try:
        attached = gate.run("--name", "attached", "-v", "kept:/k", "-v", "/anonymous", "--", "echo said; exit 3")
        assert (attached.returncode, attached.stdout) == (3, "said\n")
        assert gate.docker("logs", "attached").stdout == "said\n"
        for name, *options in (("stopped", "--gpus", "1"), ("again",), ("always", "--restart", "always"), ("running",)):
            assert gate.begin(name, *options).returncode == 0
        assert gate.begin("refused", "--gpus", str(GPUS + 1)).returncode != 0
        with ThreadPoolExecutor(1) as pool:
            followed = pool.submit(gate.docker, "wait", "stopped")
            gate.docker("stop", "-t", "0", "stopped")
            assert followed.result(QUICK_S).stdout == "137\n"
        assert gate.docker("restart", "-t", "0", "again").returncode == 0
        gate.docker("stop", "-t", "0", "always")
        names = ("ps", "--all", "--format", "{{.Names}}")
        gone = Wait(what="those that have ended to go", timeout_s=QUICK_S, fix="docker ps -a", interval_s=0.5)
        gone.until(lambda: {*gate.docker(*names).stdout.split()}, lambda seen: seen == KEPT)
        time.sleep(AFTER_S)
        assert {*gate.docker(*names).stdout.split()} == KEPT
        volumes = gate.docker("volume", "ls", "--quiet").stdout.split()
        assert ("kept" in volumes, [name for name in volumes if len(name) == 64]) == (True, [])
    finally:
        gate.gpuprov("gate", "up", "--policy", "none")
        gate.only_itself()


def test_each_option_of_docker_s_own_client_is_known(gate: OwnDocker) -> None:
    told = gate.docker("run", "--help").stdout + gate.docker("create", "--help").stdout
    options = re.findall(r"^ {2,6}(?:(-\w), )?(--[a-z0-9-]+)( \w\S*)?(?:  |$)", told, re.MULTILINE)
    assert len(options) > 150
    forms = [(name, *(["x"] if kind else [])) for *names, kind in options for name in names if name]
    words = [word for form in forms for word in form]
    assert parse_docker_run(["docker", "run", *words, "image"]).image == "image"


def test_a_policy_judges_who_enters_and_how_much_a_project_holds(ruled: OwnDocker) -> None:
    project = ("--label", "com.docker.compose.project=one", "--gpus", "1")
    assert ruled.begin("first", *project, runtime="").returncode == 0
    refused = ruled.begin("second", *project, runtime="")
    assert "the project one may hold 1 GPU at once" in refused.stderr
    assert ruled.begin("other", "--gpus", "1", runtime="").returncode == 0
    assert ruled.docker("exec", "first", "ls", "/srv").stdout == "file\n"
    entered = ruled.docker("exec", "--privileged", "first", "ls")
    assert entered.returncode != 0
    assert "refuse.privileged: CAP_" in entered.stdout + entered.stderr
    assert ruled.docker("restart", "-t", "0", "first").returncode == 0
    assert ruled.holders() == {"first": 1, "other": 1}
    narrower = POLICY.replace("touch: everything", "touch: requests").replace("FOLDER", str(ruled.folder))
    (ruled.folder / "policy.yaml").write_text(narrower)
    ruled.gpuprov("gate", "up", "--policy", f"{ruled.folder}/policy.yaml")
    ruled.only_itself()
    assert ruled.begin("free", "-v", "/etc:/h", runtime="").returncode == 0
    both = [ruled.docker("exec", "--privileged", name, "ls") for name in ("free", "first")]
    assert ["refuse.privileged" in one.stdout + one.stderr for one in both] == [False, True]


def test_a_policy_is_kept_until_it_is_replaced(ruled: OwnDocker) -> None:
    bad = ruled.folder / "bad.yaml"
    bad.write_text("schema: gpuprov.gate-policy/v1\nversion: 1\ntouch: all\n")
    assert "touch: line 3: is 'all'" in ruled.gpuprov("gate", "up", "--policy", str(bad), expect=2).stderr
    ruled.gpuprov("gate", "up")
    status = ruled.told("gate", "status")
    assert (status["policy"]["touch"], status["policy"]["gpus_per_project"]) == ("everything", 1)
    rules = program_for(ruled.socket).folder / "rules.json"
    rules.write_text("{")
    assert "the policy cannot be read" in ruled.run("--rm", "--", "true", runtime="").stderr
    assert "--policy none" in ruled.gpuprov("gate", "up", expect=3).stderr
    ruled.gpuprov("gate", "up", "--policy", "none")
    assert ruled.run("--rm", "-v", "/etc:/h", "--", "true", runtime="").returncode == 0


def test_down_is_refused_while_containers_name_the_runtime(gate: OwnDocker) -> None:
    gate.begin("one")
    refused = gate.gpuprov("gate", "down", expect=4)
    assert "one (gpuprov, running)" in refused.stderr
    gate.clear()
    gate.gpuprov("gate", "down")
    assert (gate.folder / "daemon.json").read_text() == OTHERS
    assert not [*gate.folder.glob("daemon.json.*")]
    assert gate.gpuprov("gate", "down").stdout == "unchanged\n"
    assert gate.run("--rm", "--", "true", runtime="").returncode == 0
    assert not gate.told("gate", "status")["registered"]
