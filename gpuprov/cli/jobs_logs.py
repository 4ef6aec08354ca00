"""`gpuprov jobs logs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.job_ids import job_argument
from gpuprov.cli.open_fleet import open_desk

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.shapes.jobs import JobLog


@click.command()
@job_argument()
@click.option("--follow", is_flag=True, help="Show what the job prints until it has ended, or until Ctrl-C.")
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, job: str, cluster: str, engine: str | None, *, follow: bool) -> None:
    """Show what a job printed in all of its tries; of a long log the last 4 MB.

    With --follow and --json, each line is a document with a part of the log.
    """
    from gpuprov.cli.session import moment
    from gpuprov.core.waiting import SystemClock
    from gpuprov.shapes.base import changed
    from gpuprov.stories.jobs import read_job_log

    pieces: list[JobLog] = []
    shown = 0

    def take(piece: JobLog) -> None:
        nonlocal shown
        start = piece.start or 0
        if start > shown:
            session.reporter.warn(f"of {piece.size} bytes, the first {start} are left out")
        shown = piece.next
        if follow and session.as_json:
            session.show_round(changed(piece, host=session.host.name, cluster=cluster), "", at=moment())
        elif session.as_json:
            pieces.append(piece)
        else:
            session.show_part(piece.text)

    driver = open_desk(session, engine, cluster)
    read_job_log(driver, cluster, job, follow=follow, take=take, clock=SystemClock())
    if pieces:
        whole = changed(pieces[-1], start=pieces[0].start, text="".join(piece.text for piece in pieces))
        session.show(changed(whole, host=session.host.name, cluster=cluster), "")
