"""Whether a new node may have the name that was ordered: who has it, and whether the same order made that. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.order_label import read_label, write_order
from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.drivers.foreign import describe_foreign, lack_of_foreign

if TYPE_CHECKING:
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import NodeState
    from gpuprov.shapes.node_order import NodeOrder


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
