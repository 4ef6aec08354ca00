"""`gpuprov shell`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli import spanning
from gpuprov.cli.engine import engine_option, open_engine_of_nodes
from gpuprov.cli.parameters import node_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@node_argument()
@engine_option
@click.pass_obj
def command(session: Session, node: str, engine: str | None) -> int:
    """Open root's login shell in a node."""
    from gpuprov.workflows.enter_node import run_in_node

    status = spanning.run_where_it_is(session, node, engine, ["shell", node])
    if status is not None:
        return status
    return run_in_node(open_engine_of_nodes(session, engine, node), node, ("bash", "--login"))
