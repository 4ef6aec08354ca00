"""Where the page of a cluster's queue is, whatever its nodes are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.planes.across.find_desk import planes_of_cluster

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver
    from gpuprov.planes.work.queue_page import QueuePage


def get_queue_page(driver: Driver, cluster: str) -> QueuePage:
    """The page of the first of the cluster's planes that has one; no lock is held.

    Raises:
        UsageError: There is no such cluster, or it has no such page (now).
        EngineError: The node that would show it cannot.
    """
    state, planes = planes_of_cluster(driver, cluster, verb="gpuprov queue page")
    for plane in planes:
        page = plane.queue_page(driver, state)
        if page is not None:
            return page
    raise UsageError(
        f"cluster {cluster} has no queue with a page",
        evidence=f"its nodes are for: {', '.join(plane.name for plane in planes)}; workers have one",
        fix=name_cluster("list its jobs: gpuprov jobs", cluster),
    )
