"""`gpuprov exec`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli import spanning
from gpuprov.cli.engine import engine_option, open_engine_of_nodes
from gpuprov.cli.node_command import NodeCommand
from gpuprov.cli.parameters import given_command, node_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command(cls=NodeCommand, context_settings={"allow_interspersed_args": False})
@node_argument()
@engine_option
@click.argument("argv", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def command(session: Session, node: str, engine: str | None, argv: tuple[str, ...]) -> int:
    """Run a command in a node, with this terminal's input and output; exits with the command's status."""
    from gpuprov.workflows.enter_node import run_in_node

    wanted = given_command(argv)
    if not wanted:
        raise click.UsageError("no command given after --")
    status = spanning.run_where_it_is(session, node, engine, ["exec", node, "--", *wanted])
    if status is not None:
        return status
    return run_in_node(open_engine_of_nodes(session, engine, node), node, wanted)
