"""How long Slurm is waited for: as long as one more node gets ready within the limit."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING, cast

import pytest

from gpuprov.core.errors import TimedOut
from gpuprov.core.reporter import Silent
from gpuprov.drivers.base import ExecResult
from gpuprov.roles.slurm import daemons
from gpuprov.roles.slurm.words import NodeWord
from tests.fakes.driver import FakeDriver

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import Driver

NODES = [f"c{number:03d}" for number in range(5)]
EACH_S = 0.12


class Slow:
    """A cluster whose nodes get ready one after the other, as far as `most` of them."""

    capabilities = FakeDriver.capabilities

    def __init__(self, most: int) -> None:
        self.most, self.began_s = most, time.monotonic()

    def run(self, _name: str, _argv: list[str], **_limits: object) -> ExecResult:
        return ExecResult(exit_code=0, stdout="", stderr="")

    def words(self, _driver: Driver, _controller: str) -> dict[str, NodeWord]:
        ready = min(self.most, int((time.monotonic() - self.began_s) / EACH_S))
        states = ["idle" if place < ready else "down*" for place in range(len(NODES))]
        return {name: NodeWord(state=state, user="", reason="none") for name, state in zip(NODES, states, strict=True)}


def wait(cluster: Slow, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(daemons, "_READY_BUDGET_S", 1.5 * EACH_S)
    monkeypatch.setattr(daemons, "node_words", cluster.words)
    return daemons.wait_ready(cast("Driver", cluster), "c000", NODES, Silent())[0]


@pytest.mark.slow
def test_nodes_that_get_ready_one_after_the_other_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(wait(Slow(len(NODES)), monkeypatch).values()) == {"idle"}


@pytest.mark.slow
def test_one_that_never_does_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TimedOut) as caught:
        wait(Slow(len(NODES) - 1), monkeypatch)
    assert "'c004': 'down*'" in caught.value.evidence
    assert "export GPUPROV_SILENCE_S=1200" in caught.value.fix


class Unregistered:
    """Two nodes that answer Slurm's controller; the second one has registered with it after some questions."""

    capabilities = FakeDriver.capabilities

    def __init__(self, after: float) -> None:
        self.after, self.asked, self.state = after, 0, "idle"

    def run(self, name: str, argv: list[str], **_limits: object) -> ExecResult:
        if argv[0] == "tail":
            log = f"[2026-01-01T12:00:00] error: Unable to register: {name}\n"
            return ExecResult(exit_code=0, stdout=log if name == "c001" else "", stderr="")
        self.asked += 1
        version = "22.05.8" if self.asked > self.after else "N/A"
        text = f"c000 idle 22.05.8 Unknown none\nc001 {self.state} {version} Unknown none\n"
        return ExecResult(exit_code=0, stdout=text, stderr="")

    def wait(self) -> dict[str, str]:
        return daemons.wait_ready(cast("Driver", self), "c000", ["c000", "c001"], Silent())[0]


@pytest.mark.slow
def test_a_node_that_answers_is_ready_once_it_has_registered() -> None:
    cluster = Unregistered(after=3)
    assert cluster.wait() == {"c000": "idle", "c001": "idle"}
    assert cluster.asked == 4


def test_one_that_never_registers_ends_the_wait_with_what_its_daemon_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "_READY_BUDGET_S", 0.05)
    with pytest.raises(TimedOut) as caught:
        Unregistered(after=float("inf")).wait()
    said = "last seen: {'c000': 'idle', 'c001': 'not registered with Slurm'}"
    assert caught.value.evidence == f"{said}\nslurmd on c001: [2026-01-01T12:00:00] error: Unable to register: c001"


def test_of_a_node_that_is_not_ready_slurms_own_word_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "_READY_BUDGET_S", 0.05)
    cluster = Unregistered(after=float("inf"))
    cluster.state = "down*"
    with pytest.raises(TimedOut, match="Slurm to be ready") as caught:
        cluster.wait()
    assert "'c001': 'down*'" in caught.value.evidence


UP = "Slurmctld(primary) at c000 is UP"
WAITS = "Slurmctld(primary) at c000 is DOWN\nSlurmctld(backup) at c001 is UP"


@pytest.mark.slow
@pytest.mark.parametrize(("ping", "limit"), [(UP, "no limit"), (WAITS, "10")], ids=["controller", "backup"])
def test_a_backup_that_waits_for_its_controller_is_not_waited_for(tmp_path: Path, ping: str, limit: str) -> None:
    """Real words of `scontrol ping`; sinfo hangs for 15 s at a backup that waits."""
    programs = {
        "scontrol": f"echo '{ping}'",
        "sinfo": 'echo "${LIMIT:-no limit}"',
        "timeout": 'export LIMIT="$1"; shift; exec "$@"',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    asked: list[list[str]] = []

    class Node:
        def run(self, _name: str, argv: list[str], **_limits: object) -> ExecResult:
            asked.append(argv)
            return ExecResult(exit_code=1, stdout="", stderr="")

    assert daemons.node_words(cast("Driver", Node()), "c000") == {}
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(asked[0], env=path, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == limit
    (tmp_path / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    assert subprocess.run(asked[0], env=path, check=False).returncode == 1
