"""The way to the nodes of a cluster that take jobs, on this host or, where the cluster spans hosts, on another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli import spanning
from gpuprov.cli.engine import open_engine_of_cluster

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.drivers.base import Driver


def open_cluster(session: Session, engine: str | None, cluster: str) -> Driver:
    """Connect to the engine that was asked for, else to the one that has the cluster, here or on its hosts."""
    seen = spanning.find_spanning_cluster(session, cluster, engine)
    if seen is None:
        return open_engine_of_cluster(session, engine, cluster)
    from gpuprov.workflows.spanning.desk_there import reach_desk

    return reach_desk(seen, spanning.way_to_hosts(session))
