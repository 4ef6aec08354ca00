from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.core.errors import EngineError, HostNotReady, TimedOut, UsageError
from gpuprov.core.reporter import Silent
from gpuprov.drivers.base import ExecResult, NodeState
from gpuprov.drivers.networks import NetworkState
from gpuprov.gpu.observe import observe
from gpuprov.lifecycle.verify import QUICK, verify_cluster
from gpuprov.shapes.base import changed
from gpuprov.verify.request import Work
from tests.fakes.host import FakeHost
from tests.fakes.places import NOWHERE
from tests.unit.machine.hosts import see_host

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.shapes.choices import GpuMode
    from gpuprov.shapes.verify import Report
    from gpuprov.verify.models import Observation

FACTS = Path(__file__).parents[1] / "verify" / "data" / "simulated.json"
UUID = "GPU-51515151-5151-4151-8151-000000000000"


def labels(number: int, **changes: str) -> dict[str, str]:
    return {
        "gpuprov.cluster": "lab",
        "gpuprov.role": "slurm",
        "gpuprov.access": "simulated",
        "gpuprov.gpus": UUID,
        "gpuprov.address": f"10.0.3.{number + 2}",
        "gpuprov.private-address": f"10.0.5.{number + 1}",
        "gpuprov.fingerprint": "x",
        **changes,
    }


@dataclass
class Engine:
    """An engine whose nodes answer the probe as healthy ones do, unless told otherwise."""

    nodes: list[NodeState]
    answers: dict[str, Callable[[], ExecResult]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any], float | None]] = field(default_factory=list)

    def list_nodes(self) -> list[NodeState]:
        return self.nodes

    def list_networks(self) -> list[NetworkState]:
        own = {"gpuprov.cluster": "lab"}
        return [
            NetworkState(name="lxdbr0", managed=True, address="10.9.9.1/24"),
            NetworkState(name="gpbr1", managed=True, labels=own),
            NetworkState(name="gpbr0", managed=True, address="10.0.3.1/24", labels=own),
        ]

    def run(self, name: str, argv: Sequence[str], *, timeout_s: float | None = None) -> ExecResult:
        parameters = json.loads(argv[-1])
        self.asked.append((name, parameters, timeout_s))
        if name in self.answers:
            return self.answers[name]()
        text = FACTS.read_text().replace("c001", name)
        facts = json.loads(text)
        facts["mknod"] = [{"minor": m, "folder": "/dev", "mknod": "EPERM", "open": None} for m in parameters["denied"]]
        facts["network"] = {nic: {"reached": to, "missing": []} for nic, to in parameters["network"].items()}
        return ExecResult(exit_code=0, stdout=json.dumps(facts), stderr="")


def cluster(count: int = 3) -> Engine:
    return Engine([NodeState(name=f"c{n:03d}", status="running", labels=labels(n)) for n in range(count)])


def simulate(mode: GpuMode) -> HostGpus:
    assert mode == "simulated"
    return observe(root=NOWHERE, mode=mode)


def verify(
    engine: Engine,
    nodes: Sequence[str] | None = None,
    observe_gpus: Callable[[GpuMode], HostGpus] = simulate,
    work: Work = QUICK,
    look: Callable[[Any], Observation] | None = None,
) -> Report:
    driver = cast("Driver", engine)
    host = FakeHost(folder=NOWHERE, observe=observe_gpus, looks=look or see_host)
    return verify_cluster(driver, "lab", host=host, nodes=nodes, reporter=Silent(), work=work)


def verdicts(report: Report) -> dict[str, str]:
    return {node.node: node.verdict for node in report.nodes}


def test_a_healthy_cluster_passes_and_says_simulated() -> None:
    report = verify(cluster())
    assert verdicts(report) == {"c000": "pass", "c001": "pass", "c002": "pass"}
    assert report.passed
    assert report.simulated


def test_a_node_is_asked_about_its_own_lease_and_the_others() -> None:
    engine = cluster()
    verify(engine, ["c001"])
    ((name, asked, timeout_s),) = engine.asked
    assert name == "c001"
    assert (timeout_s or 0) >= 60.0  # more on a busy machine
    assert asked["devices"] == [["/dev/nvidia0", 195, 0], ["/dev/nvidiactl", 195, 255]]
    assert asked["denied"] == [1, 2, 3, 253]
    assert asked["network"] == {"eth0": ["10.0.3.1", "10.0.3.2", "10.0.3.4"], "eth1": ["10.0.5.1", "10.0.5.3"]}
    assert asked["questions"]["slurm"]["show"]["argv"][-1] == "c001"
    assert asked["kernels"]["timeout_s"] < 60.0


def test_only_the_nodes_named_are_checked_each_once() -> None:
    assert list(verdicts(verify(cluster(), ["c002", "c000", "c002"]))) == ["c000", "c002"]


@pytest.mark.parametrize("names", [["c009"], ["c000", "c009"], ["../x"]])
def test_an_unknown_node_is_a_usage_error_that_names_those_there_are(names: list[str]) -> None:
    engine = cluster()
    with pytest.raises(UsageError) as caught:
        verify(engine, names)
    assert "c[000-002]" in caught.value.evidence
    assert engine.asked == []


def test_a_cluster_without_nodes_is_a_usage_error() -> None:
    foreign = NodeState(name="web", status="running")
    with pytest.raises(UsageError, match="no nodes"):
        verify(Engine([foreign]))


def test_a_node_or_nodes_of_another_cluster_are_named_with_the_command_that_finds_them() -> None:
    engine = cluster()
    engine.nodes.append(NodeState(name="b000", status="running", labels={**labels(0), "gpuprov.cluster": "big"}))
    with pytest.raises(UsageError) as caught:
        verify(engine, ["b000"])
    assert caught.value.evidence == "its nodes: c[000-002]; nodes of cluster big: b000"
    assert caught.value.fix == "gpuprov verify --cluster big b000"
    with pytest.raises(UsageError) as caught:
        verify(Engine([engine.nodes[-1]]))
    assert caught.value.evidence == "other clusters: big"
    assert caught.value.fix == "gpuprov verify --cluster big"
    with pytest.raises(UsageError) as caught:
        verify(Engine([changed(engine.nodes[-1], labels={**labels(0), "gpuprov.cluster": "labb"})]))
    assert caught.value.fix == "gpuprov verify --cluster labb"


def test_a_stopped_node_is_not_asked_fails_and_is_no_peer() -> None:
    engine = cluster()
    engine.nodes[1] = NodeState(name="c001", status="stopped", labels=labels(1))
    report = verify(engine)
    assert verdicts(report) == {"c000": "pass", "c001": "fail", "c002": "pass"}
    problem = report.nodes[1].problem
    assert problem is not None
    assert (problem.id, problem.fix) == ("node-running", "gpuprov start c001")
    assert sorted(name for name, _, _ in engine.asked) == ["c000", "c002"]
    assert all("10.0.3.3" not in asked["network"]["eth0"] for _, asked, _ in engine.asked)


def raise_(error: Exception) -> Callable[[], ExecResult]:
    def answer() -> ExecResult:
        raise error

    return answer


def test_a_node_that_hangs_is_unknown_and_the_others_go_on() -> None:
    engine = cluster()
    engine.answers["c000"] = raise_(TimedOut("too long", evidence="no output"))
    report = verify(engine, work=Work(limit_s=7.0))
    assert verdicts(report) == {"c000": "unknown", "c001": "pass", "c002": "pass"}
    assert not report.passed
    assert "7 s" in str(report.nodes[0].problem)


def test_a_node_that_the_engine_cannot_ask_is_unknown_and_the_others_go_on() -> None:
    engine = cluster()
    engine.answers["c002"] = raise_(EngineError("exec refused", evidence="agent is gone"))
    report = verify(engine)
    assert verdicts(report) == {"c000": "pass", "c001": "pass", "c002": "unknown"}
    assert "agent is gone" in str(report.nodes[2].problem)


def test_a_node_without_python_fails() -> None:
    engine = cluster(1)
    engine.answers["c000"] = lambda: ExecResult(exit_code=127, stdout="", stderr="python3: not found")
    assert "python3: not found" in str(verify(engine).nodes[0].problem)


def test_an_unfinished_node_fails() -> None:
    engine = cluster()
    unfinished = {key: value for key, value in labels(0).items() if key != "gpuprov.fingerprint"}
    engine.nodes[0] = NodeState(name="c000", status="running", labels=unfinished)
    assert verdicts(verify(engine))["c000"] == "fail"


def test_a_lease_on_a_gpu_that_is_gone_fails_before_its_devices() -> None:
    engine = cluster()
    engine.nodes[0] = NodeState(name="c000", status="running", labels=labels(0, **{"gpuprov.gpus": "GPU-gone"}))
    report = verify(engine)
    problem = report.nodes[0].problem
    assert problem is not None
    assert problem.id == "node-lease"
    assert "GPU-gone" in problem.evidence
    statuses = {check.id: check.status for check in report.nodes[0].checks}
    assert statuses["device-nodes"] == statuses["kernels-run"] == "skip"


def test_a_host_whose_gpus_cannot_be_told_fails_the_nodes_that_hold_some() -> None:
    def broken(_mode: GpuMode) -> HostGpus:
        raise HostNotReady("no NVIDIA driver is loaded", evidence="no version", fix="modprobe nvidia")

    engine = cluster(2)
    engine.nodes[1] = NodeState(
        name="c001", status="running", labels=labels(1, **{"gpuprov.access": "none", "gpuprov.gpus": ""})
    )
    engine.answers["c001"] = lambda: ExecResult(
        exit_code=0, stdout=FACTS.read_text().replace("Gres=gpu:1", "Gres=(null)"), stderr=""
    )
    report = verify(engine, ["c000"], observe_gpus=broken)
    problem = report.nodes[0].problem
    assert problem is not None
    assert (problem.id, problem.fix) == ("node-lease", "modprobe nvidia")
    report = verify(engine, ["c001"], observe_gpus=broken)
    lease = next(check for check in report.nodes[0].checks if check.id == "node-lease")
    assert (lease.status, report.simulated) == ("pass", False)


def test_a_real_node_is_compared_with_the_real_host() -> None:
    modes: list[str] = []

    def no_gpu(mode: GpuMode) -> HostGpus:
        modes.append(mode)
        raise HostNotReady("no NVIDIA driver is loaded")

    engine = cluster(1)
    engine.nodes[0] = NodeState(name="c000", status="running", labels=labels(0, **{"gpuprov.access": "raw"}))
    assert verdicts(verify(engine, observe_gpus=no_gpu)) == {"c000": "fail"}
    assert modes == ["real"]


def test_the_host_is_looked_at_once_and_comes_first() -> None:
    looked: list[Any] = []

    def look(simulation: Any) -> Observation:
        looked.append(simulation)
        return see_host(simulation)

    report = verify(cluster(), look=look)
    (document,) = looked
    assert document["simulated"]
    assert report.host is not None
    assert (report.host.node, report.host.verdict, report.host.simulated) == ("host", "pass", True)
    assert [place.node for place in report.places] == ["host", "c000", "c001", "c002"]
    assert report.host.gpus == tuple(gpu["uuid"] for gpu in document["gpus"])


def test_a_host_that_fails_fails_the_report_and_is_told_once() -> None:
    report = verify(cluster(), look=lambda simulation: see_host(simulation, addresses={}))
    assert not report.passed
    assert set(verdicts(report).values()) == {"unknown"}
    gateway = [check for node in report.nodes for check in node.checks if check.id == "network-gateway"]
    assert {(check.status, check.cause) for check in gateway} == {("skip", "host-network")}
    problems = [check.id for place in report.places for check in place.checks if check.status in ("fail", "unknown")]
    assert problems == ["host-network"]


def test_a_look_at_the_host_that_breaks_ends_the_run() -> None:
    def broken(_simulation: Any) -> Observation:
        raise HostNotReady("no")

    with pytest.raises(HostNotReady):
        verify(cluster(), look=broken)


def test_nodes_are_checked_side_by_side() -> None:
    engine = cluster(2)
    both = threading.Barrier(2, timeout=10)

    def answer() -> ExecResult:
        both.wait()
        return ExecResult(exit_code=1, stdout="", stderr="")

    engine.answers = {"c000": answer, "c001": answer}
    verify(engine)
    assert not both.broken
