"""Of which clusters nodes may have been that are not there any more: a pure function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.replacements import read_replacements
from gpuprov.cluster.state import cluster_state
from gpuprov.cluster.whole import recorded_whole
from gpuprov.core.errors import GpuprovError
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.spec.addressing import number_of_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.networks import NetworkState


def clusters_of_gone(names: Collection[str], networks: Iterable[NetworkState]) -> set[str]:
    """The clusters that name their nodes so, or have recorded one of these: a killed run may not have told the others.

    Args:
        names: The nodes.
        networks: All networks of the engine; what cannot be read there names nothing.
    """
    networks = tuple(networks)
    clusters = {network.labels[LABEL_CLUSTER] for network in networks if network.ours}
    return {name for name in clusters if names and _may_have_had(cluster_state(name, (), networks), names)}


def _may_have_had(state: ClusterState, names: Collection[str]) -> bool:
    prefix = state.settled.nodes.prefix if state.settled else None
    if prefix is not None and any(number_of_name(name, prefix=prefix) is not None for name in names):
        return True
    try:
        whole = recorded_whole(state)
        recorded = {*read_replacements(state), *(whole.homes if whole else ())}
    except GpuprovError:
        return False
    return not recorded.isdisjoint(names)
