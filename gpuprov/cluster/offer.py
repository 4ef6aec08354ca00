"""What a host offers to new nodes of a cluster, and the JSON form in which it tells another host of it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from gpuprov.cluster.placement import Offer, Room
from gpuprov.core.errors import EngineError, GpuprovError
from gpuprov.gpu.allocate import count_supply
from gpuprov.gpu.spec_order import request_of_node, request_of_spec
from gpuprov.spec.document import parse_json
from gpuprov.spec.schema import Decoder

if TYPE_CHECKING:
    from gpuprov.cluster.node_order import NodeOrder
    from gpuprov.cluster.placement import Place
    from gpuprov.cluster.state import ClusterState
    from gpuprov.spec.models import ClusterSpec

_SHOWN = 200  # characters


def make_offer(
    spec: ClusterSpec, state: ClusterState, place: Place, room: Room, *, most: int, order: NodeOrder | None = None
) -> Offer:
    """What a host offers to new nodes as the spec describes them, or to a node of its own.

    Args:
        spec: The cluster.
        state: The cluster's nodes on this host.
        place: The host.
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


def dump_offer(offer: Offer) -> str:
    """One line of JSON."""
    return json.dumps(asdict(offer), sort_keys=True, separators=(",", ":"))


def read_offer(text: str, *, host: str) -> Offer:
    """Read what `dump_offer` wrote on that host.

    Raises:
        EngineError: It is not what `dump_offer` writes, or that of another host.
    """
    decoder = Decoder()
    try:
        offer = decoder.decode(Offer, parse_json(text))
        problems = [f"{problem.path}: {problem.message}" for problem in decoder.problems]
    except (ValueError, RecursionError) as error:
        offer, problems = None, [f"not JSON: {error}"]
    if offer is not None and offer.host != host:
        problems.append(f"host: is {offer.host!r}")
    if offer is None or problems:
        raise EngineError(
            f"the host {host} gave an answer that cannot be read",
            evidence=ascii("; ".join(problems))[1:-1][:_SHOWN],
            fix=f"bring gpuprov there up to date: gpuprov host add {host}",
        )
    return offer
