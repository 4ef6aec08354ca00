"""`gpuprov logs`."""

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
    """Show a node's console output, such as its boot messages."""
    from gpuprov.cluster.find_node import get_node
    from gpuprov.shapes.node import Logs

    status = spanning.run_where_it_is(session, node, engine, ["logs", node])
    if status is not None:
        return status
    driver = open_engine_of_nodes(session, engine, node)
    get_node(driver, node)
    log = driver.logs(node)
    session.show(Logs(host=session.host.name, node=node, log=log), log)
    return 0
