"""`gpuprov shell`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_option
from gpuprov.cli.enter import enter
from gpuprov.cli.parameters import node_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@node_argument()
@engine_option
@click.pass_obj
def command(session: Session, node: str, engine: str | None) -> int:
    """Open root's login shell in a node."""
    from gpuprov.stories.enter_node import run_in_node

    shell = ("bash", "--login")
    return enter(session, node, engine, ["shell", node], lambda driver: run_in_node(driver, node, shell))
