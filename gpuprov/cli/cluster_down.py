"""`gpuprov cluster down`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import change_cluster, cluster_argument, engine_option

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@cluster_argument
@engine_option
@click.pass_obj
def command(session: Session, name: str, engine: str | None) -> None:
    """Remove a cluster: its nodes and their data, its networks, NAT rules and keys. Images are kept."""
    from gpuprov.workflows.cluster_down import cluster_down

    change_cluster(
        session, engine, name, lambda driver, host: cluster_down(driver, name, host, reporter=session.reporter)
    )
