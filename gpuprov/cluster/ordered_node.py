"""A node that was ordered by itself: its name, its spec, its addresses and GPUs, and its design. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.design import design_node
from gpuprov.cluster.network_plan import attach
from gpuprov.cluster.order_label import read_label, write_order
from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.drivers.foreign import describe_foreign, lack_of_foreign
from gpuprov.gpu.allocate import allocate
from gpuprov.gpu.spec_order import request_of_node
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec
from gpuprov.spec.addressing import (
    free_number,
    number_of_address,
    number_of_name,
    parse_address,
    private_address,
    public_address,
)
from gpuprov.spec.draft import CHOOSABLE, PREFIX, Draft
from gpuprov.spec.variables import overlay_variables

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Interface

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.cluster.placement import Place
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import NodeState
    from gpuprov.shapes.choices import RoleName
    from gpuprov.shapes.node_order import NodeOrder


def design_ordered(order: NodeOrder, spec: ClusterSpec, state: ClusterState, place: Place) -> NodeDesign:
    """Lease GPUs on the host, choose addresses, and design the node around them.

    Args:
        spec: By which it is made.
        state: Its cluster, without an unfinished node of that name.

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


def first_draft(order: NodeOrder) -> Draft:
    """Of a cluster that begins with a node; if that has one of the usual names, so have those that follow."""
    spec = ClusterSpec(name=order.cluster, nodes=NodesSpec(count=1))
    usual = number_of_name(order.name, prefix=spec.nodes.prefix) is not None
    return Draft(spec=spec, left=CHOOSABLE - {PREFIX} if usual else CHOOSABLE)


def with_order(spec: ClusterSpec, role: RoleName, order: NodeOrder | None) -> ClusterSpec:
    """The cluster's spec with the role of one node and what was ordered for it; None where nothing was."""
    if role != spec.nodes.role:  # what the others have of Slurm is none of theirs
        spec = changed(
            spec,
            slurm=changed(spec.slurm, backup=None, partitions=(), shards_per_gpu=None, rest=False, qos=()),
            gpus=changed(spec.gpus, scrub=False),
        )
    nodes = changed(spec.nodes, role=role)
    if order is not None:
        if spec.gpus.scrub:  # which needs to know how this node has its GPUs
            spec = changed(spec, gpus=changed(spec.gpus, sharing=order.gpus.sharing or spec.gpus.sharing))
        nodes = changed(
            nodes,
            mounts=(*nodes.mounts, *order.mounts),
            environment=overlay_variables(nodes.environment, order.environment),
            privileged=order.privileged or nodes.privileged,
        )
    return changed(spec, nodes=nodes)


def made_by(order: NodeOrder, state: ClusterState) -> NodeState | None:
    """The finished node that the same order made, if there is one."""
    node = state.node(order.name)
    if node is None or not node.complete:
        return None
    read = read_label(node)
    same = read.order is not None and not read.unknown and write_order(read.order) == write_order(order)
    return node if same else None


def refuse_taken_name(order: NodeOrder, state: ClusterState, *, engine: str) -> None:
    """Refuse a name that is taken; an unfinished node of the cluster does not take it, nor one of the same order.

    Raises:
        NotOurs: Something foreign has it.
        UsageError: A node has it that was ordered otherwise.
    """
    name = order.name
    for node in (*state.nodes, *state.others):
        if node.name != name:
            continue
        if not node.ours:
            raise NotOurs(
                f"the name {name} is taken by {describe_foreign(node)}",
                evidence=f"{engine} has {name}, {node.status}; {lack_of_foreign(node)}",
                fix=f"choose another name; about that instance: gpuprov show {name}",
            )
        if node.complete and made_by(order, state) is None:
            raise UsageError(
                f"the name {name} is taken",
                evidence=f"cluster {node.labels[LABEL_CLUSTER]} has a node {name} ({node.status}), "
                "which was created by a different command",
                fix=f"choose another name; about that node: gpuprov show {name}",
            )
