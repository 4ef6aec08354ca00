"""Of which clusters nodes may have been that are not there any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.replacements import read_replacements
from gpuprov.cluster.whole import recorded_whole
from gpuprov.core.errors import GpuprovError
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.spec.addressing import number_of_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpuprov.cluster.state import ClusterState, EngineState


def clusters_of_gone(engine: EngineState, names: Collection[str]) -> set[str]:
    """The clusters that name their nodes so, or have recorded one of these: a killed run may not have told the others.

    What is recorded on networks and cannot be read names nothing.
    """
    clusters = {network.labels[LABEL_CLUSTER] for network in engine.networks if network.ours}
    return {name for name in clusters if names and _may_have_had(engine.cluster(name), names)}


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
