"""Nodes whose jobs nobody would know any more, because a cluster becomes another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.planes.registry import PLANES
from gpuprov.shapes.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from gpuprov.cluster.state import ClusterState


def find_forgetting(state: ClusterState, wanted: ClusterSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The nodes on which jobs may run, and those that knew of them.

    As nodes that leave, they are held and asked for jobs; a cluster without any gets a new, empty queue.

    Args:
        state: The cluster as it is.
        wanted: What it becomes.
    """
    recorded = state.recorded
    if not isinstance(recorded, ClusterSpec):
        return (), ()
    planes = [plane for plane in PLANES.values() if plane.forgets(recorded, wanted)]
    nodes = tuple(node.name for plane in planes for node in state.nodes_of(plane.name))
    heads = tuple(head for plane in planes for head in plane.head_names(recorded))
    return nodes, heads if nodes else ()
