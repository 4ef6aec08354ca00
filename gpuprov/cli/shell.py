"""`gpuprov shell`."""

from __future__ import annotations

import click

from gpuprov.cli.engine import engine_option, open_engine_of_nodes
from gpuprov.cli.parameters import node_argument


@click.command()
@node_argument()
@engine_option
def command(node: str, engine: str | None) -> int:
    """Open root's login shell in a node."""
    from gpuprov.workflows.enter_node import run_in_node

    return run_in_node(open_engine_of_nodes(engine, node), node, ("bash", "--login"))
