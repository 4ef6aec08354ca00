"""The spec that a cluster was last brought up with, on this host or over several."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.fleet.clusters import explain_missing
from gpuprov.fleet.here import find_over_hosts, observe_here

if TYPE_CHECKING:
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.shapes.cluster_spec import ClusterSpec


class Recorded(NamedTuple):
    """A cluster's spec; its engine and its state where it is on this host alone."""

    spec: ClusterSpec
    driver: Driver | None = None
    state: ClusterState | None = None


def find_recorded(fleet: Fleet, name: str, *, verb: str) -> Recorded:
    """What is on record of a cluster.

    Args:
        fleet: Where it may be.
        name: The cluster.
        verb: What the user typed, without the name at its end.

    Raises:
        UsageError: There is no such cluster, or it was never brought up.
        SpecError: It cannot be read.
        GpuprovError: Its engine does not answer.
    """
    seen = find_over_hosts(fleet, name)
    if seen is not None and seen.spec is not None:
        return Recorded(seen.spec)
    driver, state = observe_here(fleet, name)
    if state.spec is not None:
        return Recorded(state.spec, driver, state)
    raise explain_missing(fleet, name, verb=verb) or UsageError(
        f"the cluster {name} has no spec",
        evidence="it was never brought up: its nodes are from create-node",
        fix=name_cluster("gpuprov cluster up", name),
    )
