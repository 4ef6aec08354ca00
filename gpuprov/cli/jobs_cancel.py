"""`gpuprov jobs cancel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.job_ids import jobs_argument
from gpuprov.cli.open_fleet import open_desk

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@jobs_argument()
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, ids: tuple[str, ...], cluster: str, engine: str | None) -> None:
    """End jobs that wait or run, and show them once they have ended; jobs that have ended stay as they are."""
    from gpuprov.cli.jobs_table import render_jobs
    from gpuprov.shapes.jobs import Jobs
    from gpuprov.stories.jobs import cancel_jobs

    jobs = cancel_jobs(open_desk(session, engine, cluster), cluster, ids)
    document = Jobs(host=session.host.name, cluster=cluster, jobs=jobs)
    session.show(document, render_jobs(jobs, screen=session.screen))
