"""The role of a node that was ordered by itself, and whether it could take part in its plane. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.planes.registry import PLAIN, plane_of
from gpuprov.shapes.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from gpuprov.cluster.state import ClusterState
    from gpuprov.shapes.choices import Role
    from gpuprov.shapes.node_order import NodeOrder


def decide_role(order: NodeOrder, spec: ClusterSpec, state: ClusterState) -> Role:
    """The role that was ordered, else the cluster's.

    In a cluster that was never brought up, it is that of the cluster that `cluster up` would make, if the node can be
    one of its own.
    """
    if order.role or state.spec:
        return order.role or spec.nodes.role
    plane = plane_of(spec.nodes.role)
    joins = state.nodes_of(plane.name) or plane.begins_with(order.name, spec)
    fits = order.image is None and not (plane.first_network and order.network == "private")
    return plane.name if joins and fits else PLAIN.name


def explain_plain(order: NodeOrder, role: Role, state: ClusterState) -> str:
    """Why the node is plain though nobody said so, in a sentence; empty where there is nothing to explain."""
    if state.spec or order.role is not None or role != PLAIN.name:
        return ""
    usual = plane_of(ClusterSpec().nodes.role)
    words = f"{order.name} is a plain node, without {usual.title}"
    if usual.begins_with(order.name, ClusterSpec()):
        return words  # with which a cluster of the usual nodes could not begin
    return f"{words}; for nodes with {usual.title}: {name_cluster('gpuprov cluster up -n 4', order.cluster)}"


def refuse_unreachable(order: NodeOrder, spec: ClusterSpec) -> None:
    """Refuse a node on the private network alone whose plane finds its nodes on the other one.

    Raises:
        UsageError: It would have no address there.
    """
    plane = plane_of(spec.nodes.role)
    if plane.first_network and order.network == "private":
        raise UsageError(
            f"{order.name} cannot be a node of {plane.title} on the private network only",
            evidence=f"its nodes find each other on {spec.network.bridge}, where this one would have no address",
            fix="omit --network, or use --role plain",
        )
