"""`verify --watch`: look again and again, and tell only what has changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import GpuprovError
from gpuprov.verify.checks.host import HOST
from gpuprov.verify.models import Report
from gpuprov.verify.report import PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpuprov.core.waiting import Clock
    from gpuprov.drivers.base import Driver
    from gpuprov.verify.models import Check, NodeReport

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
    """What is kept of the rounds so far; it replaces what was kept before, and so never grows."""

    nodes: Mapping[str, NodeReport] = field(default_factory=dict)
    host: NodeReport | None = None
    error: str = ""


def watch(
    verify: Callable[[Driver, Sequence[str] | None], Report],
    connect: Callable[[], Driver],
    *,
    cluster: str,
    nodes: Sequence[str] | None,
    rounds: Iterable[None],
    tell: Callable[[Sequence[Change]], None],
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
    seen: Seen | None = None
    driver: Driver | None = None
    for _ in rounds:
        try:
            driver = driver or connect()
            there = nodes if seen is None else _those_there(driver, cluster, nodes)
            report = Report(cluster=cluster, nodes=(), seconds=0.0)
            if there is None or there:
                report = verify(driver, there)
            host = report.host or (seen.host if seen else None)  # without a node there is no reason to look at it
            now = Seen(nodes={node.node: node for node in report.nodes}, host=host)
        except Exception as error:  # what nobody foresaw must not end a watch of days either
            if seen is None:
                raise
            driver = None  # the next round reconnects
            now = Seen(nodes=seen.nodes, host=seen.host, error=_describe(error))
        changes = compare(seen or Seen(), now)
        seen = now
        if changes:
            tell(changes)


def every(interval_s: float, clock: Clock) -> Iterator[None]:
    """Rounds without end, from the beginning of one to the beginning of the next; a late one begins at once."""
    while True:
        began_s = clock.now_s()
        yield
        clock.sleep(max(0.0, began_s + interval_s - clock.now_s()))


def compare(before: Seen, now: Seen) -> tuple[Change, ...]:
    """What has changed; evidence that only reads otherwise, such as a duration, is no change."""
    changes = []
    if bool(before.error) != bool(now.error):
        words = ("error" if seen.error else "ok" for seen in (before, now))
        changes.append(Change(node="", before=next(words), after=next(words), error=now.error))
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


def _those_there(driver: Driver, cluster: str, nodes: Sequence[str] | None) -> list[str]:
    names = [node.name for node in observe_cluster(driver, cluster).nodes]
    return [name for name in names if nodes is None or name in nodes]


def _describe(error: Exception) -> str:
    if isinstance(error, GpuprovError):
        return " ".join(str(error).split())
    return f"unexpected {type(error).__name__}: {error}"
