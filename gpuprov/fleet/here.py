"""Whether a cluster is on this machine, and on which of its engines: the one that was typed, or that has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.find_engine import engine_of_cluster, observe_wherever
from gpuprov.cluster.state import observe_cluster

if TYPE_CHECKING:
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.fleet.hosted_cluster import SpanningCluster


def find_over_hosts(fleet: Fleet, name: str, *, disks: bool = False) -> SpanningCluster | None:
    """The cluster of that name that spans hosts; None for one on this machine alone, which comes first, or for none.

    Where no hosts were added, or this machine alone is meant, nobody is asked.

    Raises:
        GpuprovError: Hosts that may have it do not answer.
    """
    if not fleet.others:
        return None
    from gpuprov.cluster.here_alone import is_here_alone
    from gpuprov.fleet.find_hosted import HERE_ALONE, find_spanning

    if is_here_alone(fleet.here, name):
        return None
    return find_spanning(name, fleet.others, fleet.connect(), instead=HERE_ALONE, disks=disks)


def open_cluster_here(fleet: Fleet, name: str) -> Driver:
    """Connect to the engine that has a cluster."""
    if fleet.engine:
        return fleet.here.open(fleet.engine)
    return engine_of_cluster(name, fleet.here.engines, reporter=fleet.reporter)


def observe_here(fleet: Fleet, name: str) -> tuple[Driver, ClusterState]:
    """The same of one that is there, with the cluster as it is."""
    if fleet.engine:
        driver = fleet.here.open(fleet.engine)
        return driver, observe_cluster(driver, name)
    return observe_wherever(name, fleet.here.engines, reporter=fleet.reporter)
