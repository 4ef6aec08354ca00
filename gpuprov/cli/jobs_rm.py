"""`gpuprov jobs rm`."""

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
    """Remove submissions whose jobs have ended, with everything in their folders; they are no longer listed."""
    from gpuprov.shapes.jobs import Jobs
    from gpuprov.stories.jobs import remove_jobs

    driver = open_desk(session, engine, cluster)
    with session.reporter.phase("remove"):
        jobs = remove_jobs(driver, cluster, ids)
    document = Jobs(host=session.host.name, cluster=cluster, jobs=jobs)
    session.show(document, f"removed: {', '.join(dict.fromkeys(job.id.partition('.')[0] for job in jobs))}")
