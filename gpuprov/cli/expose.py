"""`gpuprov expose`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli import spanning
from gpuprov.cli.engine import change_nodes, engine_option
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
) -> int:
    """Forward a port of the host to a port of a node, until `unexpose` or until the node is removed.

    The host is the one that has the node. The port can be reached from the host itself, and with `--listen 0.0.0.0`
    from every machine that reaches the host.
    """
    from gpuprov.shapes.node import LOCALLY, Exposure
    from gpuprov.workflows.expose import expose

    more = [*(("--port", str(port)) if port is not None else ()), *(("--listen", listen) if listen is not None else ())]
    status = spanning.run_where_it_is(session, node, engine, ["expose", *more, "--", node, str(node_port)])
    if status is not None:
        return status
    exposure = Exposure(
        host_port=node_port if port is None else port, node_port=node_port, listen=LOCALLY if listen is None else listen
    )
    change_nodes(
        session, engine, [node], lambda driver, host: expose(driver, node, exposure, host, reporter=session.reporter)
    )
    return 0
