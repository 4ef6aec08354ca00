"""`gpuprov shell`."""

from __future__ import annotations

import click

from gpuprov.cli.engine import engine_option, open_engine
from gpuprov.cli.parameters import node_argument


@click.command()
@node_argument()
@engine_option
def command(node: str, engine: str) -> int:
    """Open root's login shell in a node."""
    from gpuprov.workflows.enter_node import run_in_node

    return run_in_node(open_engine(engine), node, ("bash", "--login"))
