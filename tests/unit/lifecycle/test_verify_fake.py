"""verify and its watch over the fake engine: nodes that hang, stop or go away, and an engine that dies."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.core.reporter import Silent
from gpuprov.drivers.base import ExecResult
from gpuprov.gpu.observe import observe
from gpuprov.lifecycle.verify import QUICK, verify_cluster, watch
from gpuprov.verify.request import Work
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine, FakeNode
from tests.fakes.host import FakeHost
from tests.fakes.places import NOWHERE
from tests.unit.machine.hosts import see_host

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.shapes.choices import GpuMode
    from gpuprov.shapes.verify import Report
    from gpuprov.shapes.watch import Change
    from tests.fakes.engine import Command

FACTS = Path(__file__).parents[1] / "verify" / "data" / "simulated.json"
LABELS = {
    "gpuprov.cluster": "lab",
    "gpuprov.role": "slurm",
    "gpuprov.access": "simulated",
    "gpuprov.gpus": "GPU-51515151-5151-4151-8151-000000000000",
    "gpuprov.fingerprint": "x",
}


class Nodes:
    """Healthy nodes that answer the probe; those in `hanging` never do."""

    def __init__(self, count: int) -> None:
        self.engine = FakeEngine(answer=self.answer)
        self.hanging: set[str] = set()
        self.answered = threading.Event()
        for number in range(count):
            name = f"c{number:03d}"
            labels = {**LABELS, "gpuprov.address": f"10.0.3.{number + 2}"}
            self.engine.nodes[name] = FakeNode(name=name, status="running", labels=labels)

    def answer(self, command: Command) -> ExecResult:
        """As a driver does: after its time a command that does not end is a TimedOut."""
        if command.node.name in self.hanging:
            assert self.answered.wait(10), "the others wait for the node that hangs"
            assert command.timeout_s is not None
            time.sleep(command.timeout_s)
            raise TimedOut(f"the command did not finish within {command.timeout_s:g} s", evidence="no output")
        asked = json.loads(command.argv[-1])
        facts = json.loads(FACTS.read_text().replace("c001", command.node.name))
        facts["mknod"] = [{"minor": m, "folder": "/dev", "mknod": "EPERM", "open": None} for m in asked["denied"]]
        facts["network"] = {nic: {"reached": to, "missing": []} for nic, to in asked["network"].items()}
        self.answered.set()
        return ExecResult(exit_code=0, stdout=json.dumps(facts), stderr="")

    def verify(self, driver: Driver, nodes: Sequence[str] | None, work: Work = QUICK) -> Report:
        def simulate(mode: GpuMode) -> HostGpus:
            return observe(root=NOWHERE, mode=mode)

        host = FakeHost(folder=NOWHERE, observe=simulate, looks=see_host)
        return verify_cluster(driver, "lab", host=host, nodes=nodes, reporter=Silent(), work=work)

    def follow(self, *happenings: Callable[[], object]) -> list[tuple[int, str | None, str, str]]:
        told: list[tuple[int, str | None, str, str]] = []
        number = 0

        def rounds() -> Any:
            nonlocal number
            yield
            for happening in happenings:
                happening()
                number += 1
                yield

        def tell(changes: Sequence[Change]) -> None:
            told.extend((number, change.node, change.before, change.after) for change in changes)

        watch(
            self.verify,
            lambda: FakeDriver(self.engine),
            cluster="lab",
            nodes=None,
            rounds=rounds(),
            tell=tell,
        )
        return [change for change in told if change[0]]


def verdicts(report: Report) -> dict[str, str]:
    return {node.node: node.verdict for node in report.nodes}


def test_nodes_that_hang_are_unknown_and_the_others_go_on() -> None:
    nodes = Nodes(6)
    nodes.hanging = {"c000", "c003"}
    report = nodes.verify(FakeDriver(nodes.engine), None, Work(limit_s=0.05))
    assert verdicts(report) == {f"c{n:03d}": "unknown" if n in (0, 3) else "pass" for n in range(6)}
    assert not report.passed
    problem = report.nodes[0].problem
    assert problem is not None
    assert (problem.id, problem.status) == ("node-answers", "unknown")
    assert "0.05 s" in problem.evidence


def test_an_interruption_does_not_wait_for_a_node_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(2)
    nodes.hanging = {"c001"}
    monkeypatch.setattr(nodes.engine, "answer", lambda command: interrupt_or_hang(nodes, command))
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        nodes.verify(FakeDriver(nodes.engine), None, Work(limit_s=5.0))
    assert time.monotonic() - started < 4


def interrupt_or_hang(nodes: Nodes, command: Command) -> ExecResult:
    if command.node.name in nodes.hanging:
        threading.Event().wait(5)
    raise KeyboardInterrupt


@pytest.mark.parametrize(("level", "options"), [("quick", ["--quick"]), ("full", ["--seconds", "0", "--repeats", "2"])])
def test_the_level_reaches_the_node_and_the_report(level: Any, options: list[str]) -> None:
    nodes = Nodes(1)
    asked: list[dict[str, Any]] = []
    healthy = nodes.answer

    def answer(command: Command) -> ExecResult:
        asked.append(json.loads(command.argv[-1]))
        return healthy(command)

    nodes.engine.answer = answer
    report = nodes.verify(FakeDriver(nodes.engine), None, Work(level=level))
    assert report.level == level
    assert asked[0]["kernels"]["options"] == [*options, "--all-devices", f"--stand-for={LABELS['gpuprov.gpus']}"]
    assert (asked[0]["sampling"] is not None) == (level == "full")
    ids = {check.id for check in report.nodes[0].checks}
    assert ("load-sampled" in ids) == (level == "full")


def test_watch_survives_nodes_that_stop_hang_and_go_away() -> None:
    nodes = Nodes(3)
    engine = nodes.engine

    def stop() -> None:
        engine.nodes["c001"].status = "stopped"

    def start() -> None:
        engine.nodes["c001"].status = "running"

    assert nodes.follow(stop, start, lambda: engine.nodes.pop("c002"), lambda: None) == [
        (1, "c001", "pass", "fail"),
        (2, "c001", "fail", "pass"),
        (3, "c002", "pass", "absent"),
    ]


def test_watch_survives_an_engine_that_dies() -> None:
    nodes = Nodes(2)

    def die() -> None:
        nodes.engine.faults.raise_at(EngineError("the engine is unreachable"), lasting=True)

    assert nodes.follow(die, lambda: None, nodes.engine.faults.clear, lambda: None) == [
        (1, None, "ok", "error"),
        (3, None, "error", "ok"),
    ]


def test_watch_survives_an_engine_that_dies_while_nodes_are_checked() -> None:
    nodes = Nodes(2)

    def die() -> None:
        nodes.engine.faults.raise_at(EngineError("the engine is unreachable"), "run", lasting=True)

    assert nodes.follow(die, lambda: None, nodes.engine.faults.clear) == [
        (1, "c000", "pass", "unknown"),
        (1, "c001", "pass", "unknown"),
        (3, "c000", "unknown", "pass"),
        (3, "c001", "unknown", "pass"),
    ]
