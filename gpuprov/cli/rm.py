"""`gpuprov rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import change_nodes, engine_option
from gpuprov.cli.parameters import nodes_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@nodes_argument()
@engine_option
@click.pass_obj
def command(session: Session, nodes: tuple[str, ...], engine: str | None) -> None:
    """Remove nodes, running or not, with all their data. Nodes with a running Slurm job are refused."""
    from gpuprov.workflows.remove_nodes import remove_nodes

    change_nodes(
        session, engine, nodes, lambda driver, host: remove_nodes(driver, nodes, host, reporter=session.reporter)
    )
