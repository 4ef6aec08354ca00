"""`verify`: ask every node what it is, and compare that with what its labels and the host say."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.core.errors import GpuprovError, TimedOut, UsageError
from gpuprov.core.names import fold
from gpuprov.drivers.base import LABEL_ACCESS
from gpuprov.verify.chain import judge_node
from gpuprov.verify.measured import measure_node
from gpuprov.verify.models import Observation, Report
from gpuprov.verify.request import Work, parse_answer, probe_argv
from gpuprov.workflows.cluster_state import observe_cluster
from gpuprov.workflows.expectations import expect_node
from gpuprov.workflows.leases import leased_uuids
from gpuprov.workflows.side_by_side import ask_side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.models import GpuMode
    from gpuprov.verify.models import Expectation, NodeReport
    from gpuprov.workflows.cluster_state import ClusterState

    ObserveGpus = Callable[[GpuMode], HostGpus]

QUICK = Work()
_WORKERS_MIN = 4
_PART_SHARE = 0.8  # what is left of a node's time is for the rest of the probe


def verify_cluster(
    driver: Driver,
    cluster: str,
    *,
    observe_gpus: ObserveGpus,
    nodes: Sequence[str] | None,
    reporter: Reporter,
    work: Work = QUICK,
) -> Report:
    """Check nodes side by side; changes nothing.

    Args:
        driver: The engine.
        cluster: Name of the cluster.
        observe_gpus: Tells the host's GPUs, `real` or `simulated`; asked once for each mode that a node has.
        nodes: Names of those to check; None for all.
        reporter: Is told when a node begins and ends.
        work: How hard the kernels work, and the limit for each node; one that takes longer is `unknown`, and the
            others go on.

    Returns:
        The report; `report.passed` says whether all is well.

    Raises:
        UsageError: There is no such node, or no node at all.
        EngineError: The engine does not answer.
    """
    started = time.monotonic()
    with reporter.phase("verify"):
        state = observe_cluster(driver, cluster)
        chosen = _choose(state, nodes)
        hosts = _observe_hosts(chosen, observe_gpus)
        expected = [expect_node(node, state, hosts.get(_mode(node))) for node in chosen]
        reports = _check_all(driver, expected, reporter, work)
    return Report(cluster=cluster, nodes=tuple(reports), seconds=time.monotonic() - started, level=work.level)


def _choose(state: ClusterState, names: Sequence[str] | None) -> list[NodeState]:
    there = [node.name for node in state.nodes]
    if not there:
        raise UsageError(
            f"the cluster {state.name} has no nodes to verify",
            evidence="no instance carries its label",
            fix="gpuprov cluster up -n 4",
        )
    strangers = sorted(set(names or ()) - set(there))
    if strangers:
        raise UsageError(
            f"the cluster {state.name} has no node {', '.join(strangers)}",
            evidence=f"there are: {fold(there)}",
            fix=f"gpuprov verify {there[0]}",
        )
    return [node for node in state.nodes if names is None or node.name in names]


def _mode(node: NodeState) -> GpuMode:
    return "simulated" if node.labels.get(LABEL_ACCESS) == "simulated" else "real"


def _observe_hosts(nodes: Sequence[NodeState], observe: ObserveGpus) -> dict[GpuMode, HostGpus | GpuprovError]:
    """The host's GPUs by mode, or the error that says why they cannot be told."""
    return {mode: _try_observe(mode, observe) for mode in {_mode(node) for node in nodes if leased_uuids(node)}}


def _try_observe(mode: GpuMode, observe: ObserveGpus) -> HostGpus | GpuprovError:
    try:
        return observe(mode)
    except GpuprovError as error:
        return error


def _check_all(driver: Driver, expected: Sequence[Expectation], reporter: Reporter, work: Work) -> list[NodeReport]:
    def check(expectation: Expectation) -> NodeReport:
        reporter.node(expectation.node, "checking")
        seen = _look(driver, expectation, work)
        report = replace(judge_node(expectation, seen, work.level), measured=measure_node(expectation, seen))
        reporter.node(expectation.node, f"{report.verdict}{' (SIMULATED)' if report.simulated else ''}")
        return report

    # More at once would only take the processor from each other, and time from each other's limit.
    workers = max(_WORKERS_MIN, 2 * (os.cpu_count() or 1))
    return ask_side_by_side([partial(check, expectation) for expectation in expected], workers=workers)


def _look(driver: Driver, expected: Expectation, work: Work) -> Observation:
    if expected.status != "running":
        return Observation(problem=f"the node is {expected.status}")
    started = time.monotonic()
    timeout_s = work.timeout_s
    argv = probe_argv(expected, part_timeout_s=timeout_s * _PART_SHARE, work=work)
    try:
        result = driver.run(expected.node, argv, timeout_s=timeout_s)
    except TimedOut as error:
        seconds = time.monotonic() - started
        return Observation(
            problem=f"{timeout_s:g} s have passed; {error.evidence[-300:]}", timed_out=True, seconds=seconds
        )
    except GpuprovError as error:
        return Observation(problem=f"{error.what}: {error.evidence}", seconds=time.monotonic() - started)
    return parse_answer(result.exit_code, result.stdout, result.stderr, seconds=time.monotonic() - started)
