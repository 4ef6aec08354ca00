"""`gpuprov grid pull`."""

from __future__ import annotations

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
    """Copy the runs of PROJECT that have ended into PROJECT/runs, and write a table of all runs, runs/results.csv.

    Runs that are there already are left as they are, and so are other files.
    """
    from gpuprov.shapes.base import changed
    from gpuprov.stories.grids import pull_grid

    folder = get_project(project)
    driver = open_desk(session, engine, cluster)
    pulled = pull_grid(driver, cluster, folder, reporter=session.reporter)
    before = f"; {pulled.here} were there before" if pulled.here else ""
    text = f"copied {len(pulled.runs)} runs to {pulled.folder}: {pulled.files} files, {pulled.bytes} bytes{before}"
    session.show(changed(pulled, host=session.host.name), text)
