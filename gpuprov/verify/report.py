"""A report as the rows of a table, and as lines for what is wrong."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gpuprov.core.names import fold
from gpuprov.core.printable import continued

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.shapes.verify import Check, CheckStatus, NodeReport, Report

SIMULATED = "SIMULATED"
PROBLEMS: tuple[CheckStatus, ...] = ("fail", "unknown", "warn")
_WORST: tuple[CheckStatus, ...] = ("fail", "unknown", "warn", "pass", "skip")


def table_headers(report: Report) -> tuple[str, ...]:
    """The headers of the table; nodes of several hosts are told with their host."""
    return (
        "NODE",
        *(("HOST",) if report.hosts else ()),
        "VERDICT",
        "GPU",
        *(layer.upper() for layer in report.layers),
        "FIRST PROBLEM",
    )


def table_rows(report: Report) -> list[tuple[str, ...]]:
    """One row for the host and for each node; a layer shows the worst of its checks."""
    return [
        (
            node.node,
            *((node.host,) if report.hosts else ()),
            verdict_text(node),
            gpu_text(node),
            *(layer_status(node, layer) for layer in report.layers),
            _describe(node.problem),
        )
        for node in report.places
    ]


def verdict_text(node: NodeReport) -> str:
    """The verdict; one about simulated GPUs never reads like one about real hardware."""
    return f"{node.verdict} {SIMULATED}" if node.simulated else node.verdict


def gpu_text(node: NodeReport) -> str:
    """How many GPUs the node holds, and of which kind."""
    if not node.gpus:
        return "none"
    return f"{len(node.gpus)} {SIMULATED if node.simulated else node.access}"


def layer_status(node: NodeReport, layer: str) -> CheckStatus:
    """The worst status among the checks of a layer; `skip` where none was asked."""
    statuses = {check.status for check in node.checks if check.layer == layer}
    return next((status for status in _WORST if status in statuses), "skip")


def first_lines(check: Check) -> list[str]:
    """What a check says, and the next command to type where it has one."""
    return [
        continued(f"{check.status}: {check.evidence}"),
        *([f"fix: {check.fix}"] if check.fix else []),
    ]


def problem_lines(report: Report) -> list[str]:
    """The first failing check, its evidence and the next command; nodes with the same problem are told together."""
    groups: dict[tuple[str, ...], list[NodeReport]] = {}
    for node in report.places:
        if node.problem is not None:
            said = _say_problem(node, node.problem)
            groups.setdefault(tuple(text.replace(node.node, "") for text in said), []).append(node)
    lines = []
    for nodes in groups.values():
        first = nodes[0]
        if first.problem is not None:
            said = _say_problem(first, first.problem)
            each = "    # repeat for each node" if len(nodes) > 1 and first.node in (first.problem.fix or "") else ""
            lines += [f"{fold([node.node for node in nodes])}: {said[0]}", *said[1:-1], f"{said[-1]}{each}"]
    return lines


def _say_problem(node: NodeReport, problem: Check) -> list[str]:
    others = [check for check in node.checks if check.status in PROBLEMS and check is not problem]
    also = ", ".join(f"{check.id} {check.status}" for check in others)
    said = [continued(f"{problem.layer}: {problem.id}: {problem.status}: {problem.evidence}")]
    return [*said, *([f"  also: {also}"] if also else []), f"  fix: {problem.fix}"]


def summary(report: Report) -> str:
    """One line: how many nodes have which verdict, and the host's."""
    mark = f" ({SIMULATED}: this says nothing about any real GPU)" if report.simulated else ""
    nodes = f"{len(report.nodes)} node{'s' if len(report.nodes) != 1 else ''}: {_count(report.nodes) or 'none checked'}"
    host = f"; host: {report.host.verdict}" if report.host else ""
    places = report.hosts or ()
    hosts = f"; {len(places)} host{'s' if len(places) > 1 else ''}: {_count(places)}" if places else ""
    return f"{nodes}{host}{hosts}{mark}"


def _count(places: Sequence[NodeReport]) -> str:
    verdicts = Counter(place.verdict for place in places)
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))


def _describe(problem: Check | None) -> str:
    return f"{problem.id}: {problem.evidence}" if problem else ""
