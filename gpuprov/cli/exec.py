"""`gpuprov exec`."""

from __future__ import annotations

import click

from gpuprov.cli.engine import engine_option, open_engine
from gpuprov.cli.parameters import node_argument


@click.command(context_settings={"ignore_unknown_options": True})
@node_argument()
@engine_option
@click.argument("argv", metavar="[--] COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(node: str, engine: str, argv: tuple[str, ...]) -> int:
    """Run a command in a node, with this terminal's input and output; exits with the command's own status."""
    from gpuprov.workflows.enter_node import run_in_node

    return run_in_node(open_engine(engine), node, argv)
