"""`gpuprov start`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import change_nodes, engine_option
from gpuprov.cli.nodes_there import change_there
from gpuprov.cli.parameters import nodes_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@nodes_argument()
@engine_option
@click.pass_obj
def command(session: Session, nodes: tuple[str, ...], engine: str | None) -> int:
    """Start nodes, such as c000 or c[000-003]."""
    from gpuprov.planes.across.leaving import SPARE_JOBS
    from gpuprov.stories.change_nodes import NodesChange
    from gpuprov.workflows.start_stop import start_nodes

    status = change_there(session, engine, nodes, NodesChange(verb="start", policy=SPARE_JOBS))
    if status is not None:
        return status
    change_nodes(
        session, engine, nodes, lambda driver, host: start_nodes(driver, nodes, host, reporter=session.reporter)
    )
    return 0
