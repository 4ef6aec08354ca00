"""`gpuprov grid cancel`."""

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
    """End the runs of PROJECT that wait or run, and show their jobs once they have ended."""
    from gpuprov.cli.jobs_table import render_jobs
    from gpuprov.shapes.jobs import Jobs
    from gpuprov.workflows.grids import cancel_grid

    folder = get_project(project)
    jobs = cancel_grid(open_desk(session, engine, cluster), cluster, folder)
    text = render_jobs(jobs, screen=session.screen) if jobs else f"no run of {folder.name} is waiting or running"
    session.show(Jobs(host=session.host.name, cluster=cluster, jobs=jobs), text)
