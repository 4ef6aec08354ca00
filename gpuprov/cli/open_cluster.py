"""The way to a node, on this host or on another one: the one that takes the jobs of a cluster, or any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli import spanning
from gpuprov.cli.engine import open_engine_of_cluster, open_engine_of_nodes

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.drivers.base import Driver


def open_cluster(session: Session, engine: str | None, cluster: str) -> Driver:
    """Connect to the engine that was asked for, else to the one that has the cluster, here or on its hosts."""
    seen = spanning.find_spanning_cluster(session, cluster, engine)
    if seen is None:
        return open_engine_of_cluster(session, engine, cluster)
    from gpuprov.fleet.desk import reach_desk

    return reach_desk(seen, spanning.way_to_hosts(session))


def open_node(session: Session, engine: str | None, node: str) -> Driver:
    """Connect to the engine that was asked for, else to the one that has the node, here or on a host that was added."""
    known = spanning.remembered_hosts() if engine is None else {}
    if not known or spanning.nodes_here(session, [node]):
        return open_engine_of_nodes(session, engine, node)
    from gpuprov.fleet.desk import reach_node

    return reach_node(node, known, spanning.way_to_hosts(session))
