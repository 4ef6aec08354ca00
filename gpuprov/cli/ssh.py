"""`gpuprov ssh`."""

from __future__ import annotations

import click

from gpuprov.cli.engine import engine_option, open_engine_of_nodes
from gpuprov.cli.parameters import given_command, node_argument


@click.command(context_settings={"allow_interspersed_args": False})
@node_argument()
@engine_option
@click.argument("argv", metavar="[COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def command(node: str, engine: str | None, argv: tuple[str, ...]) -> int:
    """Log in to a node over ssh, with the cluster's key; the node's host key is checked."""
    from gpuprov.workflows.enter_node import ssh_to_node

    return ssh_to_node(open_engine_of_nodes(engine, node), node, given_command(argv))
