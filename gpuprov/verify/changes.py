"""What has changed between two reports, for `verify --watch`. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprov.verify.checks.host import HOST
from gpuprov.verify.report import PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.verify import Check, NodeReport

ABSENT = "absent"


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is other than in the round before.

    Attributes:
        node: Its name, or `host`; empty for the cluster as a whole.
        before: Verdict in the round before, `absent` where the node was not there; of the cluster `ok` or `error`.
        after: The same for this round.
        simulated: Whether this says nothing about any real GPU.
        problems: Checks that are a problem now, and were none or another one before.
        well: Ids of the checks that were a problem and pass now.
        error: Why the cluster could not be looked at.
    """

    node: str
    before: str
    after: str
    simulated: bool = False
    problems: tuple[Check, ...] = ()
    well: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is kept of a round."""

    nodes: Mapping[str, NodeReport] = field(default_factory=dict)
    host: NodeReport | None = None


def change_of_cluster(error: str) -> Change:
    """The cluster cannot be looked at, or answers again where the error is empty."""
    before, after = ("ok", "error") if error else ("error", "ok")
    return Change(node="", before=before, after=after, error=error)


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
            check for check in checks if check.status in PROBLEMS and statuses.get(check.id) != check.status
        ),
        well=tuple(check.id for check in checks if check.status == "pass" and statuses.get(check.id) in PROBLEMS),
    )
