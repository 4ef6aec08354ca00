"""Reading a cluster that somebody else changes meanwhile: what has vanished is no error of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.core.waiting import SystemClock, Wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.waiting import Clock
    from gpuprov.drivers.base import Driver

Seen = TypeVar("Seen")
_TRIES = 5
_SETTLE_S = 2.0  # a node that is being stopped counts as running until it has ended


def read_steadily(driver: Driver, cluster: str, read: Callable[[], Seen], *, clock: Clock | None = None) -> Seen:
    """Read, and where that fails because nodes come, go, start or stop meanwhile, read again.

    Args:
        driver: The engine.
        cluster: Name of the cluster.
        read: Changes nothing.
        clock: Where time comes from.

    Raises:
        EngineError: The cluster changed each time; or reading failed for another reason.
    """
    for _ in range(_TRIES):
        before = _look(driver, cluster)
        try:
            return read()
        except (EngineError, TimedOut) as error:
            if not _changes(driver, cluster, before, clock or SystemClock()):
                raise
            failed = error
    raise EngineError(
        f"cluster {cluster} was changed by another run while it was read",
        evidence=f"{failed.what}: {failed.evidence}",
        fix=f"wait for the other run to finish, then run this command again; gpuprov cluster status {cluster}",
    ) from failed


def _look(driver: Driver, cluster: str) -> object:
    state = observe_cluster(driver, cluster)
    nodes = [(node.name, node.status, node.complete) for node in state.nodes]
    return nodes, [network.name for network in state.own_networks]


def _changes(driver: Driver, cluster: str, before: object, clock: Clock) -> bool:
    wait = Wait(what="a change", timeout_s=_SETTLE_S, fix="", interval_s=0.2, clock=clock)
    try:
        wait.until(lambda: _look(driver, cluster), lambda seen: seen != before)
    except TimedOut:
        return False
    return True
