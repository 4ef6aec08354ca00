"""`gpuprov jobs wait`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.job_ids import jobs_argument
from gpuprov.cli.open_fleet import open_desk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session
    from gpuprov.drivers.base import Driver


@click.command()
@jobs_argument()
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, ids: tuple[str, ...], cluster: str, engine: str | None) -> int:
    """Wait until jobs have ended, and show them; exits with 1 if not all are done. Ctrl-C ends only the wait."""
    return show_ended(session, open_desk(session, engine, cluster), cluster, ids)


def show_ended(session: Session, driver: Driver, cluster: str, ids: Sequence[str]) -> int:
    """Wait until jobs have ended, and show them; returns the exit code."""
    from gpuprov.cli.jobs_table import render_jobs
    from gpuprov.core.waiting import SystemClock
    from gpuprov.shapes.jobs import Jobs
    from gpuprov.stories.jobs import all_done, until_jobs_ended

    jobs = until_jobs_ended(driver, cluster, ids, reporter=session.reporter, clock=SystemClock())
    document = Jobs(host=session.host.name, cluster=cluster, jobs=jobs)
    session.show(document, render_jobs(jobs, screen=session.screen))
    return 0 if all_done(jobs) else 1
