"""The design of a node that was ordered by itself: which addresses and which GPUs it gets. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.design import design_node
from gpuprov.cluster.network_plan import attach
from gpuprov.core.errors import UsageError
from gpuprov.gpu.allocate import allocate
from gpuprov.gpu.spec_order import request_of_node
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.spec.addressing import (
    free_number,
    number_of_address,
    number_of_name,
    parse_address,
    private_address,
    public_address,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Interface

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.cluster.placement import Place
    from gpuprov.cluster.state import ClusterState
    from gpuprov.shapes.node_order import NodeOrder


def design_ordered(order: NodeOrder, spec: ClusterSpec, state: ClusterState, place: Place) -> NodeDesign:
    """Lease GPUs on the host, choose addresses, and design the node around them.

    Args:
        order: The node.
        spec: By which it is made.
        state: Its cluster, without an unfinished node of that name.
        place: The host.

    Raises:
        UsageError: The GPUs or the address cannot be had.
    """
    common = state.spec or ClusterSpec()
    request = request_of_node(order.gpus, order.environment, common, place.gpus, node=order.name)
    gpus = allocate(place.gpus, place.leases, [request], claims=place.claims, cluster=state.name)[order.name]
    taken = {**place.taken, **state.taken_addresses()}
    attachments = attach(spec, order.name, choose_addresses(order, spec, taken, host=place.host))
    return design_node(spec, order.name, attachments=attachments, gpus=gpus, sharing=request.sharing, place=place)


def choose_addresses(
    order: NodeOrder, spec: ClusterSpec, taken: Mapping[str, str], *, host: str = ""
) -> dict[str, IPv4Interface]:
    """Its address by interface: that which was ordered, else that of its number, else the highest free one.

    Args:
        order: The node.
        spec: Its cluster's.
        taken: Addresses in use (without prefix length), each with its holder.
        host: Where the node is to be, in a cluster over hosts.

    Raises:
        UsageError: The address cannot be had, or the private one that goes with it.
    """
    number = number_of_name(order.name, prefix=spec.nodes.prefix)
    if order.address is not None:
        number = number_of_address(parse_address(order.address, spec.network, taken))
    elif number is None or str(public_address(number, spec.network).ip) in taken:
        hosts = [one.name for one in spec.hosts]
        turn = {"host": hosts.index(host), "hosts": len(hosts)} if host in hosts else {}
        number = free_number(spec.network, taken, **turn)
    public, private = public_address(number, spec.network), private_address(number, spec.network)
    if str(private.ip) in taken:
        raise UsageError(
            f"the private address {private.ip}, which belongs to {public.ip}, is in use",
            evidence=f"by {taken[str(private.ip)]}",
            fix="choose another --addr; those in use: gpuprov list",
        )
    return {
        "both": {"eth0": public, "eth1": private},
        "nat": {"eth0": public},
        "private": {"eth1": private},
    }[order.network]
