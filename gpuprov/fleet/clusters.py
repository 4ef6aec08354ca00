"""The clusters that there are, by the nodes that hosts have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.core.nearest import ask_back, find_nearest
from gpuprov.drivers.base import ROLE_BUILDER, ROLE_JOB
from gpuprov.fleet.questions.nodes import NODES
from gpuprov.shapes.nodes import ListedCluster, Nodes
from gpuprov.shapes.orders import ListOrder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.errors import GpuprovError
    from gpuprov.fleet.fleet import Fleet, FleetAnswers
    from gpuprov.shapes.nodes import NodeRow


def ask_clusters(fleet: Fleet) -> tuple[tuple[ListedCluster, ...], FleetAnswers[Nodes]]:
    """The clusters by name, and which hosts have answered."""
    told = fleet.ask(NODES, ListOrder(engine=fleet.engine))
    return group_clusters([(host, row) for host, nodes in told.answers.items() for row in nodes.nodes]), told


def group_clusters(rows: Sequence[tuple[str, NodeRow]]) -> tuple[ListedCluster, ...]:
    """The clusters of these nodes, each with the host that it is on."""
    found: dict[str, list[tuple[str, NodeRow]]] = {}
    for host, row in rows:
        if not row.cluster.startswith("(") and row.role not in (ROLE_BUILDER, ROLE_JOB):
            found.setdefault(row.cluster, []).append((host, row))
    return tuple(_describe(name, nodes) for name, nodes in sorted(found.items()))


def _describe(name: str, nodes: Sequence[tuple[str, NodeRow]]) -> ListedCluster:
    return ListedCluster(
        name=name,
        hosts=tuple(dict.fromkeys(host for host, _ in nodes)),
        engines=tuple(dict.fromkeys(row.engine for _, row in nodes)),
        roles=tuple(dict.fromkeys(row.role for _, row in nodes)),
        nodes=len(nodes),
        running=sum(row.status == "running" for _, row in nodes),
        gpus=len({(host, uuid) for host, row in nodes for uuid in row.gpus}),
        simulated=any(row.simulated for _, row in nodes),
    )


def explain_missing(fleet: Fleet, name: str, *, verb: str) -> GpuprovError | None:
    """The error of a cluster that hosts were asked for and do not have, with one like it; None if it exists.

    Args:
        fleet: Where it may be.
        name: The cluster.
        verb: What the user typed, without the name at its end.
    """
    names = [one.name for one in ask_clusters(fleet)[0]]
    if name in names:
        return None
    near = find_nearest(name, names)
    return UsageError(
        f"there is no cluster {name}{ask_back([name], names)}",
        evidence=f"clusters with nodes: {', '.join(names) or 'none'}",
        fix=f"{verb} {near or names[0]}"
        if near or len(names) == 1
        else name_cluster("create it: gpuprov cluster up -n 4", name),
    )
