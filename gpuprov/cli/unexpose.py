"""`gpuprov unexpose`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_option, show_changes
from gpuprov.cli.parameters import node_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@node_argument()
@click.argument("port", type=int)
@engine_option
@click.pass_obj
def command(session: Session, node: str, port: int, engine: str | None) -> None:
    """Stop forwarding a port of the host to a node."""
    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.fleet.member.ports import serve_unexpose
    from gpuprov.fleet.where import serve_where_it_is
    from gpuprov.shapes.orders import UnexposeOrder
    from gpuprov.shapes.outcome import Changes

    order = UnexposeOrder(node=node, engine=engine or "", host_port=port)
    show_changes(session, serve_where_it_is(open_fleet(session, engine), order, serve_unexpose, Changes))
