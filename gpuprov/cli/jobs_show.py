"""`gpuprov jobs show`."""

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
    """Show all details of jobs: what was submitted, node, GPUs, tries, times, log, and why a job failed."""
    from gpuprov.cli.jobs_table import render_shown
    from gpuprov.shapes.base import changed
    from gpuprov.stories.jobs import show_jobs

    shown = show_jobs(open_desk(session, engine, cluster), cluster, ids)
    session.show(changed(shown, host=session.host.name, cluster=cluster), render_shown(shown))
