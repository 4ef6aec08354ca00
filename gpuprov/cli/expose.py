"""`gpuprov expose`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_option, show_changes
from gpuprov.cli.parameters import node_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@node_argument()
@click.argument("node_port", type=int)
@click.option("--port", type=int, help="Port of the host.  [default: the node's port]")
@click.option(
    "--listen", metavar="ADDRESS", help="Address of the host to listen on; 0.0.0.0 for all.  [default: 127.0.0.1]"
)
@engine_option
@click.pass_obj
def command(
    session: Session, node: str, node_port: int, port: int | None, listen: str | None, engine: str | None
) -> None:
    """Forward a port of the host to a port of a node, until `unexpose` or until the node is removed.

    The host is the one that has the node. The port can be reached from the host itself, and with `--listen 0.0.0.0`
    from every machine that reaches the host.
    """
    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.fleet.member.ports import serve_expose
    from gpuprov.fleet.where import serve_where_it_is
    from gpuprov.lifecycle.expose import check_exposure
    from gpuprov.shapes.node import LOCALLY, Exposure
    from gpuprov.shapes.orders import ExposeOrder
    from gpuprov.shapes.outcome import Changes

    exposure = Exposure(
        host_port=node_port if port is None else port, node_port=node_port, listen=LOCALLY if listen is None else listen
    )
    check_exposure(exposure)
    order = ExposeOrder(node=node, engine=engine or "", exposure=exposure)
    show_changes(session, serve_where_it_is(open_fleet(session, engine), order, serve_expose, Changes))
