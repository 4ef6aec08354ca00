"""`gpuprov exec`."""

from __future__ import annotations

import click

from gpuprov.cli.engine import engine_option, open_engine_of_nodes
from gpuprov.cli.parameters import given_command, node_argument


@click.command(context_settings={"allow_interspersed_args": False})
@node_argument()
@engine_option
@click.argument("argv", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(node: str, engine: str | None, argv: tuple[str, ...]) -> int:
    """Run a command in a node, with this terminal's input and output; exits with the command's status."""
    from gpuprov.workflows.enter_node import run_in_node

    wanted = given_command(argv)
    if not wanted:
        raise click.UsageError("no command given after --")
    return run_in_node(open_engine_of_nodes(engine, node), node, wanted)
