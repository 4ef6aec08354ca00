"""`gpuprov cluster down`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import cluster_argument, engine_option, open_engine_of_cluster, show_outcome

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@cluster_argument
@engine_option
@click.pass_obj
def command(session: Session, name: str, engine: str | None) -> None:
    """Remove a cluster: its nodes and their data, its networks, NAT rules and keys. Images are kept."""
    from gpuprov.workflows.cluster_down import cluster_down

    show_outcome(
        session,
        cluster_down(open_engine_of_cluster(session.host, engine, name), name, session.host, reporter=session.reporter),
    )
