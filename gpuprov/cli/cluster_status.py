"""`gpuprov cluster status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli import spanning
from gpuprov.cli.engine import cluster_argument, engine_option, observe_named_cluster
from gpuprov.core.names import name_cluster

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@cluster_argument
@engine_option
@click.pass_obj
def command(session: Session, name: str, engine: str | None) -> int:
    """Show a cluster's nodes: address, GPU, sharing, role, state and health."""
    from gpuprov.cli.node_table import render_limits, render_nodes
    from gpuprov.cluster.full_disks import find_full_disks
    from gpuprov.drivers.foreign import copies_of_cluster
    from gpuprov.planes.across.rows import state_rows
    from gpuprov.shapes.nodes import ClusterStatus
    from gpuprov.spec.shared_folder import SHARED

    over_hosts = spanning.find_spanning_cluster(session, name, engine)
    if over_hosts is not None:
        return spanning.status(session, over_hosts)
    driver, state = observe_named_cluster(session, engine, name)
    rows, folder = state_rows(driver, state), state.shared_folder
    for copy in copies_of_cluster(name, state.others):
        session.reporter.note(f"{copy.name} is {copy.copy_of}; it is not part of the cluster and is not changed")
    text = (
        f"{render_nodes(rows, colour=session.colour)}\n\n{render_limits(rows)}"
        if rows
        else f"cluster {name} has no nodes; {name_cluster('create them: gpuprov cluster up -n 4', name)}"
    )
    text += f"\nshared folder: {folder} of the host, {SHARED} in the nodes" if folder else ""
    for line in find_full_disks(driver, session.host, folder):
        session.reporter.warn(line)
    document = ClusterStatus(host=session.host.name, cluster=name, shared_folder=folder or None, nodes=rows)
    session.show(document, text)
    return 0
