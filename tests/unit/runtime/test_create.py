"""One `create`, with this machine's /run, lock and engines replaced."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core import group_files
from gpuprov.core.errors import EngineError, HostNotReady
from gpuprov.core.queue import Queue
from gpuprov.gpu.allocate import Lease
from gpuprov.runtime import create, records
from gpuprov.runtime.create import REFUSED, main
from gpuprov.runtime.edit import LEASE
from gpuprov.runtime.engines import Told
from gpuprov.runtime.policy import Policy, render_policy
from tests.unit.runtime.simulated import simulated_host

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

UUIDS = [gpu.uuid for gpu in simulated_host(2).gpus]
ENGINES_SAY = [Told()]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Makes a container; tells the exit code, and what was written to the log."""
    monkeypatch.setattr(group_files, "LOCK_FOLDER", tmp_path / "lock")
    monkeypatch.setattr(records, "FOLDER", tmp_path / "leases")
    monkeypatch.setattr(create, "ask_engines", lambda _: ENGINES_SAY[0])
    ENGINES_SAY[0] = Told()
    policy = Policy(engines=(), simulation=simulated_host(2).document)
    (tmp_path / "policy.json").write_text(render_policy(policy))

    def one(name: str, *env: str, **more: Any) -> tuple[int, str]:
        bundle = tmp_path / name
        (bundle / "rootfs").mkdir(parents=True, exist_ok=True)
        (bundle / "config.json").write_text(json.dumps({"process": {"env": list(env)}, **more}))
        log = bundle / "log"
        status = main([str(tmp_path), str(os.getpid()), str(bundle), str(tmp_path / "moby"), name, str(log), "1"])
        return status, log.read_text() if log.exists() else ""

    return one


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
    arguments = [str(tmp_path), str(os.getpid()), str(tmp_path / "a"), "/r", "a", str(tmp_path / "log"), "1"]
    assert main(arguments) == REFUSED
    assert "config.json cannot be used" in (tmp_path / "log").read_text()


def test_a_large_config_is_refused_in_words(
    make: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create, "_MOST_BYTES", 2**20)
    status, log = make("a", "GPUPROV_GPUS=1", *["x" * 2**20])
    assert status == REFUSED
    assert "larger than 1 MiB" in log


def test_without_its_policy_it_says_what_to_type(make: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    (tmp_path / "policy.json").unlink()
    status, log = make("a", "GPUPROV_GPUS=1")
    assert status == REFUSED
    assert "gpuprov gate up" in log


def test_a_node_of_gpuprov_is_left_as_it_is(make: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    ENGINES_SAY[0] = Told(nodes=frozenset({"a"}))
    assert make("a", "HOUDINI_GPU_REQUESTED=1") == (0, "")
    assert held(tmp_path, "a") == []
