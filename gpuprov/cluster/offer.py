"""What a host offers to new nodes of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import GpuprovError
from gpuprov.gpu.allocate import count_supply
from gpuprov.gpu.spec_order import request_of_node, request_of_spec
from gpuprov.shapes.members import Offer, Room

if TYPE_CHECKING:
    from gpuprov.cluster.placement import Place
    from gpuprov.cluster.state import ClusterState
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.node_order import NodeOrder


def make_offer(
    spec: ClusterSpec, state: ClusterState, place: Place, room: Room, *, most: int, order: NodeOrder | None = None
) -> Offer:
    """What a host offers to new nodes as the spec describes them, or to a node of its own.

    Args:
        state: The cluster's nodes on this host.
        room: What it has left.
        most: How many new nodes are of interest.
        order: The node of its own.
    """
    nodes = tuple(node.name for node in state.nodes if node.complete)
    try:
        request = (
            request_of_node(order.gpus, order.environment, spec, place.gpus, node=order.name)
            if order
            else request_of_spec(spec, place.gpus, node=spec.name)
        )
        claims, cluster = place.claims, state.name
        supply = count_supply(place.gpus, place.leases, request, claims=claims, most=most, cluster=cluster)
    except GpuprovError as error:
        return Offer(host=place.host, nodes=nodes, room=room, lack=f"{error.what} ({error.evidence})")
    lack = ""
    if request.size > supply.gpus:
        lack = f"it has {supply.gpus} GPU{'' if supply.gpus == 1 else 's'}, {request.size} are requested for each node"
    return Offer(
        host=place.host,
        nodes=nodes,
        size=request.size,
        more=supply.nodes,
        unshared=supply.unshared,
        free=supply.free,
        gpus=supply.gpus,
        room=room,
        lack=lack,
    )
