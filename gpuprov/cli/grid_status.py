"""`gpuprov grid status`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.grid_project import get_project, project_argument
from gpuprov.cli.open_fleet import open_desk

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@project_argument()
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, project: str, cluster: str, engine: str | None) -> None:
    """List the runs of PROJECT by state: done, failed, running, waiting; and how many are missing.

    Missing are the combinations of values that have no run that is done, waits or runs: `grid run` would submit them.
    """
    from gpuprov.cli.grid_table import render_status
    from gpuprov.shapes.base import changed
    from gpuprov.workflows.grids import look_at_grid

    folder = get_project(project)
    status = look_at_grid(partial(open_desk, session, engine, cluster), cluster, folder)
    document = changed(status, host=session.host.name, cluster=cluster)
    session.show(document, render_status(status, screen=session.screen))
