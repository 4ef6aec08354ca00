"""The spec by which one node is made: its cluster's, with what was ordered for this node alone. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec
from gpuprov.spec.addressing import number_of_name
from gpuprov.spec.draft import CHOOSABLE, PREFIX, Draft
from gpuprov.spec.variables import overlay_variables

if TYPE_CHECKING:
    from gpuprov.shapes.choices import Role
    from gpuprov.shapes.node_order import NodeOrder


def first_draft(order: NodeOrder) -> Draft:
    """Of a cluster that begins with a node; if that has one of the usual names, so have those that follow."""
    spec = ClusterSpec(name=order.cluster, nodes=NodesSpec(count=1))
    usual = number_of_name(order.name, prefix=spec.nodes.prefix) is not None
    return Draft(spec=spec, left=CHOOSABLE - {PREFIX} if usual else CHOOSABLE)


def with_order(spec: ClusterSpec, role: Role, order: NodeOrder | None) -> ClusterSpec:
    """The cluster's spec with the role of one node and what was ordered for it; None where nothing was."""
    if role != spec.nodes.role:  # the others' backup is none of theirs
        spec = changed(spec, slurm=changed(spec.slurm, backup=None))
    nodes = changed(spec.nodes, role=role)
    if order is not None:
        nodes = changed(
            nodes,
            mounts=(*nodes.mounts, *order.mounts),
            environment=overlay_variables(nodes.environment, order.environment),
            privileged=order.privileged or nodes.privileged,
        )
    return changed(spec, nodes=nodes)
