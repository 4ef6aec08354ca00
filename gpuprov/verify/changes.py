"""What has changed between two reports, for `verify --watch`. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import of_object
from gpuprov.shapes.watch import Change, Problem
from gpuprov.verify.checks.host import HOST
from gpuprov.verify.report import PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.verify import NodeReport
    from gpuprov.shapes.watch import SeenVerdict

ABSENT: Final = "absent"
_BREAKS: Final[tuple[SeenVerdict, SeenVerdict]] = ("ok", "error")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is kept of a round."""

    nodes: Mapping[str, NodeReport] = field(default_factory=dict)
    host: NodeReport | None = None


def change_of_cluster(error: str) -> Change:
    """The cluster cannot be looked at, or answers again where the error is empty."""
    before, after = _BREAKS if error else _BREAKS[::-1]
    return Change(node=None, before=before, after=after, error=error or None)


def compare(before: Seen, now: Seen) -> tuple[Change, ...]:
    """What has changed; evidence that only reads otherwise, such as a duration, is no change."""
    changes = []
    places = [(HOST, before.host, now.host)] if before.host or now.host else []
    places += [(name, before.nodes.get(name), now.nodes.get(name)) for name in sorted({*before.nodes, *now.nodes})]
    for name, was, is_now in places:
        change = _compare_node(name, was, is_now)
        if change.before != change.after or change.problems or change.well:
            changes.append(change)
    return tuple(changes)


def _compare_node(name: str, before: NodeReport | None, now: NodeReport | None) -> Change:
    statuses = {check.id: check.status for check in before.checks} if before else {}
    checks = now.checks if now else ()
    return Change(
        node=name,
        before=before.verdict if before else ABSENT,
        after=now.verdict if now else ABSENT,
        simulated=any(report.simulated for report in (before, now) if report),
        problems=tuple(
            of_object(Problem, check)
            for check in checks
            if check.status in PROBLEMS and statuses.get(check.id) != check.status
        ),
        well=tuple(check.id for check in checks if check.status == "pass" and statuses.get(check.id) in PROBLEMS),
    )
