"""`verify`: ask every node what it is, and compare that with what its labels and the host say; once, or `--watch`."""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.expected_nodes import expect_host, expect_node, gateway_of, listed_gpus
from gpuprov.cluster.foreign_gpus import find_foreign_uses
from gpuprov.cluster.held_gpus import gpu_paths, leased_uuids
from gpuprov.cluster.state import observe_cluster, pick_nodes, with_current_gpus
from gpuprov.cluster.whole import recorded_whole
from gpuprov.core.errors import GpuprovError, TimedOut
from gpuprov.core.names import name_cluster
from gpuprov.core.rounds import watch_rounds
from gpuprov.core.side_by_side import ask_side_by_side, questions_at_once
from gpuprov.core.slowness import slowness
from gpuprov.drivers.base import LABEL_ACCESS
from gpuprov.gpu.models import HostGpus
from gpuprov.roles.registry import ROLES, checks_of_roles
from gpuprov.shapes.base import changed
from gpuprov.shapes.verify import Report
from gpuprov.verify.chain import judge_host, judge_node
from gpuprov.verify.changes import Seen, change_of_cluster, compare
from gpuprov.verify.checks.people import ask_people
from gpuprov.verify.checks.sssd import ask_sssd
from gpuprov.verify.measure import measure_node
from gpuprov.verify.models import Observation
from gpuprov.verify.request import Work, parse_answer, probe_argv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.machine.base import Host
    from gpuprov.shapes.choices import GpuMode
    from gpuprov.shapes.verify import NodeReport
    from gpuprov.shapes.watch import Change
    from gpuprov.verify.models import Expectation

    ObserveGpus = Callable[[GpuMode], HostGpus]


QUICK = Work()
_PART_SHARE = 0.8  # what is left of a node's time is for the rest of the probe


@contextmanager
def after_up(cluster: str, reporter: Reporter) -> Iterator[None]:
    """Around the verification after `cluster up`: Ctrl-C undoes nothing any more, and this says so."""
    try:
        yield
    except KeyboardInterrupt:
        reporter.warn(name_cluster("the nodes are up and stay, but are not verified: gpuprov verify", cluster))
        raise


def verify_cluster(  # noqa: PLR0913 - what is proven, how hard, and who is told
    driver: Driver,
    cluster: str,
    *,
    host: Host,
    nodes: Sequence[str] | None,
    reporter: Reporter,
    work: Work = QUICK,
    state: ClusterState | None = None,
) -> Report:
    """Check the host and nodes side by side; changes nothing.

    Args:
        driver: The engine.
        cluster: Name of the cluster.
        host: The machine.
        nodes: Names of those to check; None for all.
        reporter: Is told when a node begins and ends.
        work: How hard the kernels work, and the limit for each node; one that takes longer is `unknown`, and the
            others go on.
        state: The cluster as it was a moment ago, where that is known.

    Returns:
        The report; `report.passed` says whether all is well.

    Raises:
        UsageError: There is no such node, or no node at all.
        EngineError: The engine does not answer.
    """
    started = time.monotonic()
    with reporter.phase("verify"):
        state = state or observe_cluster(driver, cluster)
        hosts = _observe_hosts(pick_nodes(state, nodes, verb="gpuprov verify"), host.gpus)
        for gpus in hosts.values():
            state = with_current_gpus(state, gpus) if isinstance(gpus, HostGpus) else state
        chosen = pick_nodes(state, nodes, verb="gpuprov verify")
        held = {path for node in chosen for path in gpu_paths(node.devices)}
        for use in find_foreign_uses(driver, state.others):
            if held & set(use.devices):
                reporter.warn(str(use))
        whole = recorded_whole(state) if work.beside else None
        others = [member for member in (whole.members if whole else ()) if member.name in work.beside]
        expected = [expect_node(node, state, hosts.get(_mode(node)), beside=others) for node in chosen]
        first = partial(_check_host, state, expected, hosts.get("simulated"), host)
        first_report, *reports = _check_all(driver, expected, first, reporter, work)
    seconds = time.monotonic() - started
    return Report(cluster=cluster, nodes=tuple(reports), duration_s=seconds, level=work.level, host=first_report)


def _mode(node: NodeState) -> GpuMode:
    return "simulated" if node.labels.get(LABEL_ACCESS) == "simulated" else "real"


def _observe_hosts(nodes: Sequence[NodeState], observe: ObserveGpus) -> dict[GpuMode, HostGpus | GpuprovError]:
    """The host's GPUs by mode, or the error that says why they are unknown."""
    return {mode: _try_observe(mode, observe) for mode in {_mode(node) for node in nodes if leased_uuids(node)}}


def _try_observe(mode: GpuMode, observe: ObserveGpus) -> HostGpus | GpuprovError:
    try:
        return observe(mode)
    except GpuprovError as error:
        return error


def _check_host(
    state: ClusterState, expected: Sequence[Expectation], simulated: HostGpus | GpuprovError | None, host: Host
) -> NodeReport:
    document = simulated.document if isinstance(simulated, HostGpus) else None
    seen = host.look(document)
    expectation = expect_host(expected, seen, name=host.name, gateway=gateway_of(state))
    report = judge_host(expectation, seen)
    return changed(report, gpus=listed_gpus(seen))


def _check_all(
    driver: Driver,
    expected: Sequence[Expectation],
    check_host: Callable[[], NodeReport],
    reporter: Reporter,
    work: Work,
) -> list[NodeReport]:
    """The host's report, then those of the nodes, which wait for it when they are judged."""
    judged: Future[NodeReport] = Future()
    more = checks_of_roles()

    def check_first() -> NodeReport:
        try:
            judged.set_result(check_host())
        except BaseException as error:
            judged.set_exception(error)
            raise
        return judged.result()

    def check(expectation: Expectation) -> NodeReport:
        reporter.node(expectation.node, "checking")
        seen = _look(driver, expectation, work)
        report = judge_node(expectation, seen, work.level, host=judged.result(), more=more)
        report = changed(report, measured=measure_node(expectation, seen))
        reporter.node(expectation.node, f"{report.verdict}{' (SIMULATED)' if report.simulated else ''}")
        return report

    questions: list[Callable[[], NodeReport]] = [
        check_first,
        *(partial(check, expectation) for expectation in expected),
    ]
    return ask_side_by_side(questions, workers=questions_at_once() + 1)


def _look(driver: Driver, expected: Expectation, work: Work) -> Observation:
    if expected.status != "running":
        return Observation(problem=f"the node is {expected.status}")
    started = time.monotonic()
    timeout_s = work.timeout_s(len(expected.gpus), slowness=slowness())
    part_s = timeout_s * _PART_SHARE
    role = ROLES.get(expected.role)
    questions = {expected.role: role.questions(expected, timeout_s=part_s)} if role else {}
    questions |= ask_people(expected, timeout_s=part_s)
    questions |= ask_sssd(expected, timeout_s=part_s)
    argv = probe_argv(expected, part_timeout_s=part_s, work=work, questions=questions)
    try:
        result = driver.run(expected.node, argv, timeout_s=timeout_s)
    except TimedOut as error:
        seconds = time.monotonic() - started
        return Observation(
            problem=f"no response within {timeout_s:g} s; {error.evidence[-300:]}", timed_out=True, seconds=seconds
        )
    except GpuprovError as error:
        seconds = time.monotonic() - started
        return Observation(problem=f"{error.what}: {error.evidence}", unasked=True, seconds=seconds)
    return parse_answer(result.exit_code, result.stdout, result.stderr, seconds=time.monotonic() - started)


def watch(
    verify: Callable[[Driver, Sequence[str] | None], Report],
    connect: Callable[[], Driver],
    *,
    cluster: str,
    nodes: Sequence[str] | None,
    rounds: Iterable[None],
    tell: Callable[[Sequence[Change]], object],
) -> None:
    """Look once in each round; the first round tells the host and every node.

    A node that goes away is told and no longer asked for until it is back. An engine that goes away is told once, and
    once more when it answers again.

    Args:
        verify: Checks the nodes of these names, all where None.
        connect: Opens the engine.
        cluster: Name of the cluster.
        nodes: Which are watched; None for all, those that come later as well.
        rounds: Gives the rhythm; an endless one is ended by KeyboardInterrupt.
        tell: Is handed the changes of a round that has any.

    Raises:
        GpuprovError: The first round could not be done.
    """
    driver: Driver | None = None

    def look(seen: Seen | None) -> Seen:
        nonlocal driver
        engine, driver = driver or connect(), None  # after a round that fails, the next one reconnects
        there = nodes if seen is None else _those_there(engine, cluster, nodes)
        report = Report(cluster=cluster, nodes=(), duration_s=0.0)
        if there is None or there:
            report = verify(engine, there)
        driver = engine
        host = report.host or (seen.host if seen else None)  # without a node there is no reason to look at it
        return Seen(nodes={node.node: node for node in report.nodes}, host=host)

    watch_rounds(
        look,
        compare,
        rounds=rounds,
        first=lambda seen: tell(compare(Seen(), seen)),
        tell=tell,
        trouble=change_of_cluster,
    )


def _those_there(driver: Driver, cluster: str, nodes: Sequence[str] | None) -> list[str]:
    names = [node.name for node in observe_cluster(driver, cluster).nodes]
    return [name for name in names if nodes is None or name in nodes]
