"""`gpuprov unexpose`."""

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
@click.argument("port", type=int)
@engine_option
@click.pass_obj
def command(session: Session, node: str, port: int, engine: str | None) -> int:
    """Stop forwarding a port of the host to a node."""
    from gpuprov.workflows.expose import unexpose

    status = spanning.run_where_it_is(session, node, engine, ["unexpose", "--", node, str(port)])
    if status is not None:
        return status
    change_nodes(session, engine, [node], lambda driver, _host: unexpose(driver, node, port, reporter=session.reporter))
    return 0
