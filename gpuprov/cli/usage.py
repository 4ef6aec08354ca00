"""`gpuprov usage`: GPU hours."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final, get_args

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import cluster_option, engine_option, is_typed
from gpuprov.shapes.usage import By

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.cli.tables import Screen
    from gpuprov.shapes.usage import Usage

DAYS: Final = 30
_HOUR_S: Final = 3600


@command(
    click.option("--since", metavar="TIME", help=f"Beginning of the time that counts.  [default: {DAYS}d]"),
    click.option("--until", metavar="TIME", help="End of it.  [default: now]"),
    click.option("--by", type=click.Choice(get_args(By)), default="person", show_default=True, help="What a row is."),
    click.option("--csv", "as_csv", is_flag=True, help="Print CSV."),
    cluster_option,
    engine_option,
)
def usage(session: Session, since: str | None, until: str | None, by: By, *, as_csv: bool) -> Result:
    """Show the GPU hours of a cluster's jobs, and of containers of `gpuprov run` on this host: GPUs times hours.

    Of each job, the time between --since and --until counts; one that still runs counts up to now. TIME is a date in
    UTC, such as 2026-11-01 or 2026-11-01T08:30, or how long ago it was, such as 12h or 7d.

    Under Slurm, all jobs of the cluster count; with `accounting: on` in the spec, their figures outlast `cluster down`.
    Of workers, jobs count that were submitted with gpuprov. With --cluster, containers of `gpuprov run` are left out.
    """
    from gpuprov.core.errors import UsageError
    from gpuprov.stories.usage import parse_moment, read_usage

    now = datetime.now(timezone.utc).replace(microsecond=0)
    end = min(parse_moment(until, "--until", now), now) if until else now
    start = parse_moment(since, "--since", now) if since else end - timedelta(days=DAYS)
    if start >= end:
        raise UsageError(
            "no time is between --since and --until",
            evidence=f"from {start:%Y-%m-%dT%H:%M:%SZ} to {end:%Y-%m-%dT%H:%M:%SZ}; now it is {now:%Y-%m-%dT%H:%M:%SZ}",
            fix=f"give an earlier date: gpuprov usage --since {min(end, start) - timedelta(days=DAYS):%Y-%m-%d}",
        )
    told = read_usage(
        lambda: session.controller,
        session.cluster,
        (start, end),
        by=by,
        host=session.host,
        with_runs=not is_typed("cluster"),
    )
    for note in told.notes:
        session.reporter.note(note)
    if told.simulated and told.rows:
        session.reporter.warn("SIMULATED: GPUs are simulated; these are hours of no real GPU")
    return Result(document=told, text=_csv(told) if as_csv else render_usage(told, screen=session.screen))


def render_usage(told: Usage, *, screen: Screen) -> str:
    """The table, and a line with the sum."""
    from gpuprov.cli.tables import render_table

    mark = " SIMULATED" if told.simulated else ""
    if not told.rows:
        job = (
            "job" if told.accounting else "counted job"
        )  # of what workers run, and from before a record, there is more
        return f"no {job} had a GPU from {told.since} to {told.until}"
    with_runs = any(row.cluster != told.cluster for row in told.rows)
    headers = (told.by.upper(), *(("PERSON",) if told.by == "job" else ()), *(("CLUSTER",) if with_runs else ()))
    rows = [
        (
            *(row.name, *((row.person,) if told.by == "job" else ()), *((row.cluster,) if with_runs else ())),
            *(_read_hours(row.gpu_seconds), row.jobs, row.running or None),
        )
        for row in told.rows
    ]
    table = render_table((*headers, "GPU HOURS", "JOBS", "RUNNING"), rows, screen=screen)
    return f"{table}\n\n{_read_hours(told.gpu_seconds)} GPU hours{mark} from {told.since} to {told.until}"


def _csv(told: Usage) -> str:
    from gpuprov.shapes.cells import render_cells

    header = (
        told.by,
        "gpu_seconds",
        "gpu_hours",
        "jobs",
        "running",
        "cluster",
        *(("person",) if told.by == "job" else ()),
    )
    rows = (
        (
            *(row.name, f"{row.gpu_seconds}", _hours(row.gpu_seconds), f"{row.jobs}", f"{row.running}", row.cluster),
            *((row.person or "",) if told.by == "job" else ()),
        )
        for row in told.rows
    )
    return render_cells((header, *rows)).rstrip("\n")


def _read_hours(seconds: int) -> str:
    """For people: what is not nothing does not look like it."""
    return "<0.01" if 0 < seconds < _HOUR_S // 200 else _hours(seconds)


def _hours(seconds: int) -> str:
    return f"{seconds / _HOUR_S:.2f}"
