"""`gpuprov exec`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_option
from gpuprov.cli.enter import enter
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
    from gpuprov.stories.enter_node import run_in_node

    wanted = given_command(argv)
    if not wanted:
        raise click.UsageError("no command given after --")
    words = ["exec", node, "--", *wanted]
    return enter(session, node, engine, words, lambda driver: run_in_node(driver, node, wanted))
