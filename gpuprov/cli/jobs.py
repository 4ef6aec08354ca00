"""`gpuprov jobs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.open_fleet import open_desk
from gpuprov.cli.parameters import LONGEST_WAIT_S, seconds_up_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session
    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.jobs import JobChange, Jobs

INTERVAL_S: Final = 2.0


@click.command()
@click.option(
    "--watch",
    "interval_s",
    type=float,
    is_flag=False,
    flag_value=INTERVAL_S,
    metavar="[SECONDS]",
    callback=seconds_up_to(float(LONGEST_WAIT_S)),
    help=f"Repeat every N seconds (default {INTERVAL_S:g}) and report only changes, until Ctrl-C.",
)
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, interval_s: float | None, cluster: str, engine: str | None) -> None:
    """List the jobs of a cluster: those that wait, run, or have ended.

    The id of a submission, such as 7, stands for all of its runs; 7.3 is run 3 of it.
    """
    from gpuprov.cli.jobs_table import render_all_jobs
    from gpuprov.shapes.base import changed
    from gpuprov.stories.jobs import all_jobs

    driver = open_desk(session, engine, cluster)
    if interval_s is not None:
        _watch(session, driver, cluster, interval_s)
        return
    listed = all_jobs(driver, cluster)
    document = changed(listed, host=session.host.name, cluster=cluster)
    session.show(document, render_all_jobs(listed, screen=session.screen))


def _watch(session: Session, driver: Driver, cluster: str, interval_s: float) -> None:
    from gpuprov.cli.jobs_table import render_all_jobs, render_job_change
    from gpuprov.cli.session import moment
    from gpuprov.core.rounds import every
    from gpuprov.core.waiting import SystemClock
    from gpuprov.shapes.base import changed
    from gpuprov.shapes.jobs import JobsWatch
    from gpuprov.stories.jobs import watch_jobs

    def first(listed: Jobs) -> None:
        document = changed(listed, host=session.host.name, cluster=cluster)
        session.show_round(document, render_all_jobs(listed, screen=session.screen), at=moment())

    def tell(changes: Sequence[JobChange]) -> None:
        at = moment()
        text = "\n".join(f"{at} {render_job_change(change)}" for change in changes)
        document = JobsWatch(host=session.host.name, cluster=cluster, changes=tuple(changes))
        session.show_round(document, text, at=at)

    watch_jobs(driver, cluster, rounds=every(interval_s, SystemClock()), first=first, tell=tell)
