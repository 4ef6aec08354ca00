"""`gpuprov cluster status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import cluster_argument, engine_option
from gpuprov.cli.show_result import show_result
from gpuprov.core.names import name_cluster

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@cluster_argument
@engine_option
@click.pass_obj
def command(session: Session, cluster: str, engine: str | None) -> int:
    """Show a cluster's nodes: address, GPU, sharing, role, state and health."""
    from msgspec import UNSET

    from gpuprov.cli.node_table import render_limits, render_nodes
    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.fleet.host_statuses import host_statuses
    from gpuprov.fleet.lost_service import tell_lost_service
    from gpuprov.link.several import part_error
    from gpuprov.shapes.nodes import ClusterStatus
    from gpuprov.spec.shared_folder import SHARED
    from gpuprov.stories.status import look_at_cluster

    seen = look_at_cluster(open_fleet(session, engine), cluster)
    for host, part in seen.parts.items():
        place = f"{host}: " if seen.spans else ""
        for line in part.copies:
            session.reporter.note(f"{place}{line}")
        for line in part.full_disks:
            session.reporter.warn(f"{place}{line}")
    rows, folder = seen.rows, seen.shared_folder
    text = (
        f"{render_nodes(rows, screen=session.screen, spans=seen.spans)}\n\n"
        f"{render_limits([row for row in rows if row.host not in seen.failed])}"
        if rows
        else f"cluster {cluster} has no nodes; {name_cluster('create them: gpuprov cluster up -n 4', cluster)}"
    )
    whose = "all hosts" if seen.spans else "the host"
    text += f"\nshared folder: {folder} of {whose}, {SHARED} in the nodes" if folder else ""
    document = ClusterStatus(
        host=session.host.name,
        cluster=cluster,
        shared_folder=folder or None,
        nodes=rows,
        hosts=host_statuses(seen.machines, seen.failed, seen.away) if seen.spans else UNSET,
    )
    error = part_error(seen.failed, of=len(seen.machines), besides=tell_lost_service(seen) if seen.spans else "")
    return show_result(session, document, text, error)
