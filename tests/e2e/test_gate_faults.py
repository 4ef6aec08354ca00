"""Kills at every step of a container that leases GPUs: afterwards no GPU is held twice, and none is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.group_files import Gates
from gpuprov.core.queue import Queue
from gpuprov.core.waiting import Wait
from gpuprov.machine.runtime_program import program_for
from gpuprov.runtime.records import read_records
from tests.own_docker import find_processes, own_docker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.own_docker import OwnDocker

IMAGE = "gpte-faults"
GPUS = 4
ALL = f"GPUPROV_GPUS={GPUS}"
LIMIT_S = 30.0
KILLED_RUNC = """#!/bin/sh
case "$*" in
*' create '*) [ -e {mark} ] || {{ touch {mark}; {body} }} ;;
esac
exec {runc} "$@"
"""


@pytest.fixture(scope="module")
def restoring(docker: object) -> Iterator[OwnDocker]:  # noqa: ARG001 - it is installed
    """Its containers go on without dockerd."""
    with own_docker("--live-restore") as one:
        prepare(one)
        yield one


@pytest.fixture
def gate(restoring: OwnDocker) -> Iterator[OwnDocker]:
    clear(restoring)
    yield restoring
    clear(restoring)


def prepare(one: OwnDocker) -> None:
    one.load_image(IMAGE)
    one.gpuprov("gate", "up", "--default")
    one.only_itself()


def clear(one: OwnDocker) -> None:
    """No container, no lease, nobody who waits."""
    one.clear()
    until(lambda: not queue(one), "all who wait to go")


def until(seen: Callable[[], object], what: str) -> None:
    Wait(what=what, timeout_s=LIMIT_S, fix="ls /run/gpuprov/leases", interval_s=0.05).until(seen, bool)


def begin(one: OwnDocker, name: str, *variables: str, more: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return one.docker(*words(name, variables, ("-d", *more)))


def words(name: str, variables: tuple[str, ...], more: tuple[str, ...] = ()) -> list[str]:
    said = [word for variable in variables for word in ("-e", variable)]
    return ["run", "--name", name, "--network", "none", *said, *more, IMAGE, "sleep", "1000"]


@contextmanager
def one_that_waits(one: OwnDocker, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """The client of a start that waits for a GPU."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = ["docker", *words(name, ("GPUPROV_GPUS=1", "GPUPROV_WAIT=2m"))]
    with subprocess.Popen(command, env=one.environment, **quiet) as client:  # type: ignore[call-overload]
        until(lambda: queue(one), "it to wait")
        yield client
        client.kill()


def held(one: OwnDocker) -> dict[str, tuple[int, ...]]:
    """Who holds which GPUs, by their minors; none twice."""
    found = {record.name: record.minors for record in read_records(root=one.root)}
    minors = [minor for some in found.values() for minor in some]
    assert len(minors) == len({*minors}), found
    return found


def seen_inside(one: OwnDocker, name: str) -> tuple[int, ...]:
    names = one.docker("exec", name, "ls", "/dev").stdout.split()
    return tuple(int(word.removeprefix("nvidia")) for word in names if word.removeprefix("nvidia").isdecimal())


def queue(one: OwnDocker) -> int:
    """How many wait for GPUs."""
    return len(Queue(Gates(folder=one.root / "var/lib/gpuprov/lock")).waiting())


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def shim_of(one: OwnDocker, name: str) -> list[int]:
    number = one.docker("ps", "-aq", "--no-trunc", "-f", f"name={name}").stdout.strip()  # `inspect` waits as well
    return find_processes("containerd-shim", number, str(one.folder))


def require_all_free(one: OwnDocker) -> None:
    """All can be had, by a start that waits as others do."""
    done = one.docker(*words("whole", (ALL, "GPUPROV_WAIT=20s"), ("-d",)))
    assert done.returncode == 0, done.stderr
    assert seen_inside(one, "whole") == held(one)["whole"] == tuple(range(GPUS))


VICTIMS: dict[str, Callable[[OwnDocker], list[int]]] = {
    "python": lambda one: find_processes("start.py", str(one.folder)),
    "front": lambda one: find_processes("/bin/sh", "gpuprov-runtime", str(one.folder)),
    "shim": lambda one: shim_of(one, "waits"),
}


@pytest.mark.parametrize("victim", VICTIMS)
def test_who_waits_is_gone_with_what_is_killed_and_takes_no_gpu(gate: OwnDocker, victim: str) -> None:
    begin(gate, "holder", ALL)
    with one_that_waits(gate, "waits"):
        kill(*VICTIMS[victim](gate))
        until(lambda: not queue(gate), "it to wait no more")
        assert held(gate) == {"holder": tuple(range(GPUS))}
    gate.docker("rm", "-f", "holder", "waits")
    require_all_free(gate)


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_who_waits_for_a_dockerd_that_has_ended_keeps_no_gpu(gate: OwnDocker, how: signal.Signals) -> None:
    """Containerd runs on, and discards what nobody is there to start."""
    begin(gate, "holder", ALL)
    with one_that_waits(gate, "waits"):
        gate.stop(how)
        gate.start()
        assert held(gate) == {"holder": tuple(range(GPUS))}
    gate.docker("rm", "-f", "holder")
    until(lambda: not queue(gate) and not held(gate), "it to be discarded")
    require_all_free(gate)


def test_gate_up_again_keeps_the_default_runtime(gate: OwnDocker) -> None:
    """Containers may name it by now."""
    gate.gpuprov("gate", "up")
    gate.only_itself()
    assert gate.told("gate", "status")["default"]
    assert json.loads((gate.folder / "daemon.json").read_text())["default-runtime"] == "gpuprov-default"


@pytest.mark.long
def test_the_gate_knows_whose_start_waits_though_docker_does_not_tell(gate: OwnDocker) -> None:
    begin(gate, "holder", ALL)
    with one_that_waits(gate, "waits"):
        told = gate.told("gate", "status")
        assert {one["name"]: one["status"] for one in told["containers"]} == {"waits": "created", "holder": "running"}
        assert "waits (gpuprov, created)" in gate.gpuprov("gate", "down", expect=4).stderr
        kill(*VICTIMS["front"](gate))


def test_a_start_whose_client_is_killed_waits_on_and_holds_what_it_gets(gate: OwnDocker) -> None:
    begin(gate, "holder", ALL)
    with one_that_waits(gate, "waits") as client:
        client.kill()
        gate.docker("rm", "-f", "holder")
        until(lambda: held(gate), "it to have its GPU")
    assert held(gate) == {"waits": (0,)}
    until(lambda: seen_inside(gate, "waits") == (0,), "it to run")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_killed_runc_leaves_no_lease(gate: OwnDocker, moment: str) -> None:
    """Before it has made the container, or when its first process is there already and the engine does not know."""
    front = Path(program_for(gate.socket).places["gpuprov-default"])
    text = front.read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("RUNC=")]
    runc = line.partition("=")[2]
    body = "kill -9 $$;" if moment == "before" else f'{runc} "$@"; kill -9 $$;'
    stand_in = gate.folder / "bin/killed-runc"
    stand_in.write_text(KILLED_RUNC.format(runc=runc, body=body, mark=gate.folder / f"mark-{moment}"))
    stand_in.chmod(0o755)
    try:
        front.write_text(text.replace(line, f"RUNC={stand_in}"))
        refused = begin(gate, "killed", ALL)
        assert refused.returncode != 0
    finally:
        front.write_text(text)
    until(lambda: not held(gate), "the lease to end")
    require_all_free(gate)


@pytest.mark.parametrize("victim", ["first process", "shim"])
def test_a_killed_container_gives_its_gpus_back(gate: OwnDocker, victim: str) -> None:
    begin(gate, "holder", ALL)
    first = int(gate.docker("inspect", "-f", "{{.State.Pid}}", "holder").stdout)
    kill(*([first] if victim == "first process" else shim_of(gate, "holder")))
    require_all_free(gate)
    assert held(gate).keys() == {"whole"}


def test_containers_that_live_on_without_dockerd_keep_their_gpus(gate: OwnDocker) -> None:
    begin(gate, "one", "GPUPROV_GPUS=1")
    begin(gate, "two", "GPUPROV_GPUS=2")
    before = held(gate)
    for how in (signal.SIGKILL, signal.SIGTERM):
        gate.stop(how)
        assert held(gate) == before
        gate.start()
        assert {name: seen_inside(gate, name) for name in before} == held(gate) == before
    assert begin(gate, "late", "GPUPROV_GPUS=2").returncode != 0
    assert begin(gate, "last", "GPUPROV_GPUS=1").returncode == 0
    gate.docker("stop", "-t", "0", "two")
    until(lambda: "two" not in held(gate), "the GPUs of what was stopped")
    assert begin(gate, "late2", "GPUPROV_GPUS=2").returncode == 0


def test_after_a_power_cut_containers_that_start_again_have_gpus_of_their_own(gate: OwnDocker) -> None:
    """All processes are gone, and /run is empty."""
    always = ("--restart", "always")
    for name in ("one", "two", "three"):
        begin(gate, name, "GPUPROV_GPUS=1", more=always)
    begin(gate, "four", "GPUPROV_GPUS=1")
    gate.cut_power()
    gate.start_containerd()
    gate.start()
    until(lambda: held(gate).keys() == {"one", "two", "three"}, "those that start again")
    until(lambda: all(seen_inside(gate, name) == some for name, some in held(gate).items()), "them to run")
    assert gate.docker("start", "four").returncode == 0
    assert len(held(gate)) == GPUS


REMOVING = "schema: gpuprov.gate-policy/v1\nversion: 1\ntouch: everything\nremove: true\n"


@pytest.mark.long
@pytest.mark.parametrize("moment", ["before its end", "after its end"])
def test_what_ends_is_removed_though_dockerd_is_killed(gate: OwnDocker, moment: str) -> None:
    (gate.folder / "policy.yaml").write_text(REMOVING)
    gate.gpuprov("gate", "up", "--policy", f"{gate.folder}/policy.yaml")
    gate.only_itself()
    try:
        assert gate.begin("ends", "-v", "kept:/k").returncode == 0
        first = int(gate.docker("inspect", "-f", "{{.State.Pid}}", "ends").stdout)
        if moment == "after its end":
            kill(first)
            until(lambda: gate.docker("ps", "-q").stdout == "", "it to end")
        gate.stop(signal.SIGKILL)
        kill(first)
        gate.start()
        until(lambda: gate.docker("ps", "-aq").stdout == "", "it to be removed")
        assert gate.docker("volume", "ls", "-q").stdout == "kept\n"
    finally:
        gate.gpuprov("gate", "up", "--policy", "none")
        gate.only_itself()


@pytest.mark.long
@pytest.mark.parametrize("how", ["dockerd killed", "dockerd restarted", "containerd killed"])
def test_a_docker_that_restores_nothing(docker: object, how: str) -> None:  # noqa: ARG001 - it is installed
    with own_docker() as one:
        prepare(one)
        begin(one, "holder", f"GPUPROV_GPUS={GPUS - 1}", more=("--restart", "always"))
        begin(one, "other", "GPUPROV_GPUS=1")
        with one_that_waits(one, "waits"):
            if how == "containerd killed":
                one.stop_containerd(signal.SIGKILL)
                held(one)
                one.start_containerd()
            else:
                one.stop(signal.SIGKILL if how == "dockerd killed" else signal.SIGTERM)
                held(one)
                one.start()
        lives_on = {"holder", "other"} if how == "containerd killed" else {"holder"}
        until(lambda: len(held(one).get("holder", ())) == GPUS - 1, "what starts again to hold GPUs")
        until(lambda: held(one).keys() - {"waits"} == lives_on, "all else to end")
        until(lambda: seen_inside(one, "holder") == held(one)["holder"], "it to run")
        clear(one)
        require_all_free(one)
        clear(one)
