"""`gpuprov ssh`."""

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
@click.argument("argv", metavar="[COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def command(session: Session, node: str, engine: str | None, argv: tuple[str, ...]) -> int:
    """Log in to a node over ssh, with the cluster's key; the node's host key is checked.

    A node of another host is reached from that host, with its key of the cluster.
    """
    from gpuprov.stories.enter_node import ssh_to_node

    wanted = given_command(argv)
    words = ["ssh", node, *(("--", *wanted) if wanted else ())]
    return enter(session, node, engine, words, lambda driver: ssh_to_node(driver, node, wanted))
