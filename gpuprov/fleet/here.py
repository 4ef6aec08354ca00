"""What a fleet means on this machine: the engine that was typed, or else the one that has what is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.find_engine import engine_of_cluster, observe_wherever
from gpuprov.cluster.state import observe_cluster

if TYPE_CHECKING:
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.fleet import Fleet


def open_cluster_here(fleet: Fleet, name: str, *, creates: bool = False) -> Driver:
    """Connect to the engine that has a cluster, or on which it is to be made where none has."""
    if fleet.engine:
        return fleet.here.open(fleet.engine)
    return engine_of_cluster(name, fleet.here.engines, creates=creates, reporter=fleet.reporter)


def observe_here(fleet: Fleet, name: str) -> tuple[Driver, ClusterState]:
    """The same of one that is there, with the cluster as it is."""
    if fleet.engine:
        driver = fleet.here.open(fleet.engine)
        return driver, observe_cluster(driver, name)
    return observe_wherever(name, fleet.here.engines, reporter=fleet.reporter)
