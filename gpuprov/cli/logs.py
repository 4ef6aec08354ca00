"""`gpuprov logs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_option
from gpuprov.cli.parameters import node_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@node_argument()
@engine_option
@click.pass_obj
def command(session: Session, node: str, engine: str | None) -> None:
    """Show a node's console output, such as its boot messages."""
    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.fleet.questions.one_node import LOGS
    from gpuprov.fleet.where import ask_where_it_is
    from gpuprov.shapes.orders import LogsOrder

    told = ask_where_it_is(open_fleet(session, engine), LOGS, LogsOrder(node=node, engine=engine or ""))
    session.show(told, told.log)
