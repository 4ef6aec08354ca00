"""`verify --watch`: look again and again, and tell only what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.rounds import watch_rounds
from gpuprov.verify.changes import Change, Seen, change_of_cluster, compare
from gpuprov.verify.models import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpuprov.drivers.base import Driver


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
        report = Report(cluster=cluster, nodes=(), seconds=0.0)
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
