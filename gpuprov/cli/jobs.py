"""`gpuprov jobs` and the verbs below it; `gpuprov queue page`."""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.options import (
    LONGEST_WAIT_S,
    as_option,
    job_argument,
    jobs_argument,
    page_port_option,
    seconds_up_to,
)
from gpuprov.shapes.choices import JOB_STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.roles.work.job_choice import JobChoice
    from gpuprov.roles.work.queue_page import QueuePage
    from gpuprov.shapes.jobs import Job, JobChange, JobLog, Jobs

INTERVAL_S: Final = 2.0
MOST_LAST: Final = 10_000
QUEUE_PORT: Final = 5555


@command(
    click.option("--state", "states", type=click.Choice(JOB_STATES), multiple=True, help="Only these; repeatable."),
    click.option("--last", type=click.IntRange(1, MOST_LAST), metavar="N", help="Only the newest N submissions."),
    click.option(
        "--watch",
        "interval_s",
        type=float,
        is_flag=False,
        flag_value=INTERVAL_S,
        metavar="[SECONDS]",
        callback=seconds_up_to(float(LONGEST_WAIT_S)),
        help=f"Repeat every N seconds (default {INTERVAL_S:g}) and report only changes, until Ctrl-C.",
    ),
    as_option,
    cluster_option,
    engine_option,
)
def listing(
    session: Session, interval_s: float | None, states: tuple[str, ...], last: int | None, person: str
) -> Result | None:
    """List the jobs of a cluster: those that wait, run, or have ended.

    A terminal shows a row for each submission, and `gpuprov jobs ID` all runs of one; a pipe gets a row for each run.
    The id of a submission, such as 7, stands for all of its runs; 7.3 is run 3 of it.
    """
    from gpuprov.roles.work.job_choice import JobChoice
    from gpuprov.stories.jobs import all_jobs

    choice = JobChoice(states=frozenset(states), last=last)
    if interval_s is not None:
        _watch(session, interval_s, choice, person)
        return None
    listed = choice.of(all_jobs(session.controller, session.cluster, reporter=session.reporter, person=person))
    return Result(document=listed, text=_table(session, listed))


@command(jobs_argument(), as_option, cluster_option, engine_option)
def show(session: Session, ids: tuple[str, ...], person: str) -> Result:
    """Show all details of jobs: what was submitted, node, GPUs, tries, times, log, and why a job failed.

    `gpuprov jobs ID` is short for it.
    """
    from gpuprov.cli.jobs_table import render_shown
    from gpuprov.stories.jobs import show_jobs

    shown = show_jobs(session.controller, session.cluster, ids, person=person)
    return Result(document=shown, text=render_shown(shown, _names(session, shown.jobs), _now(), screen=session.screen))


@command(
    job_argument(),
    click.option("--follow", is_flag=True, help="Show what the job prints until it has ended, or until Ctrl-C."),
    click.option("--tail", type=click.IntRange(1), metavar="N", help="Begin with the last N lines."),
    as_option,
    cluster_option,
    engine_option,
)
def logs(session: Session, job: str, tail: int | None, person: str, *, follow: bool) -> Result | None:
    """Show what a job printed in all of its tries; of a long log the last 4 MB.

    What a line overwrites with a carriage return, such as a progress bar, is left out. With --follow and --json, each
    line is a document with a part of the log, as the job printed it.
    """
    from gpuprov.cli.session import moment
    from gpuprov.core.overwritten import Overwritten
    from gpuprov.core.waiting import SystemClock
    from gpuprov.shapes.base import changed
    from gpuprov.stories.jobs import read_job_log

    pieces: list[JobLog] = []
    shown = 0
    lines = Overwritten()

    def take(piece: JobLog) -> None:
        nonlocal shown
        start = piece.start or 0
        if start > shown and tail is None:
            session.reporter.warn(f"of {piece.size} bytes, the first {start} are left out")
        shown = piece.next
        if follow and session.as_json:
            session.show_round(changed(piece, host=session.host.name, cluster=session.cluster), "", at=moment())
        elif session.as_json:
            pieces.append(piece)
        else:
            session.show_part(lines.take(piece.text))

    clock, note = SystemClock(), session.reporter.note
    with leaving(session, [job], person) if follow else nullcontext():
        read_job_log(
            session.controller,
            session.cluster,
            job,
            follow=follow,
            tail=tail,
            take=take,
            note=note,
            clock=clock,
            person=person,
        )
    if not pieces:
        return None
    text = "".join(piece.text for piece in pieces)
    return Result(document=changed(pieces[-1], start=pieces[0].start, text=text), text="")


@command(
    job_argument(),
    click.argument("to", metavar="[DEST]", required=False, type=click.Path(path_type=Path)),
    as_option,
    cluster_option,
    engine_option,
)
def pull(session: Session, job: str, to: Path | None, person: str) -> Result:
    """Copy what a job printed and wrote into the folder DEST, job-ID in the current folder by default.

    There is `log.txt`, and the files of the run in `work`; of a submission with --count, a folder for each run. Runs
    that have not ended are left out. Runs that are there already stay as they are, so the command can be repeated.
    """
    from gpuprov.core.units import render_size
    from gpuprov.stories.pull_job import pull_job

    place = to or Path(f"job-{job}")
    pulled = pull_job(session.controller, session.cluster, job, place, reporter=session.reporter, person=person)
    runs = f"{len(pulled.jobs)} run{'' if len(pulled.jobs) == 1 else 's'}"
    more = "; ".join(
        f"{count} {words}"
        for count, words in (
            (pulled.here, "there before"),
            (pulled.open, "not ended and left out"),
            (pulled.links, "link was left out" if pulled.links == 1 else "links were left out"),
        )
        if count
    )
    files = f"{pulled.files} file{'' if pulled.files == 1 else 's'}"
    text = f"copied {runs} to {pulled.folder}: {files}, {render_size(pulled.bytes)}"
    return Result(document=pulled, text=f"{text}; {more}" if more else text)


@command(jobs_argument(), as_option, cluster_option, engine_option)
def cancel(session: Session, ids: tuple[str, ...], person: str) -> Result:
    """End jobs that wait or run, and show them once they have ended; jobs that have ended stay as they are."""
    from gpuprov.stories.jobs import cancel_jobs

    return _of_jobs(session, cancel_jobs(session.controller, session.cluster, ids, person=person))


@command(
    jobs_argument(),
    click.option("--yes", is_flag=True, help="Do not ask."),
    as_option,
    cluster_option,
    engine_option,
)
def remove(session: Session, ids: tuple[str, ...], person: str, *, yes: bool) -> Result:
    """Remove submissions whose jobs have ended, with everything in their folders; they are no longer listed.

    On a terminal, it says what will be lost and asks. Elsewhere, it needs --yes.
    """
    from gpuprov.cli.agreement import require_agreement
    from gpuprov.core.names import name_cluster
    from gpuprov.shapes.jobs import Jobs
    from gpuprov.stories.jobs import NOTHING_REMOVED, describe_results, remove_jobs

    typed, whose = " ".join(ids), f" --as {person}" if person else ""
    if not yes:
        require_agreement(
            session,
            "yes",
            "the records and the results of jobs would be removed",
            describe_results(session.controller, session.cluster, ids, person=person),
            kept=NOTHING_REMOVED,
            fix=name_cluster(f"gpuprov jobs rm {typed} --yes", session.cluster) + whose,
        )
    with session.reporter.phase("remove"):
        jobs = remove_jobs(session.controller, session.cluster, ids, person=person)
    return Result(document=Jobs(jobs=jobs), text=f"removed: {', '.join(dict.fromkeys(job.submission for job in jobs))}")


@command(jobs_argument(), as_option, cluster_option, engine_option)
def wait(session: Session, ids: tuple[str, ...], person: str) -> Result:
    """Wait until jobs have ended, and show them; exits with 1 if not all are done. Ctrl-C ends only the wait."""
    with leaving(session, ids, person):
        return ended(session, ids, person)


@contextmanager
def leaving(session: Session, ids: Sequence[str], person: str) -> Iterator[None]:
    """Say at Ctrl-C what becomes of jobs that the block waited for."""
    from gpuprov.stories.jobs import describe_left

    try:
        yield
    except KeyboardInterrupt:
        session.reporter.warn(describe_left(session.controller, session.cluster, ids, person=person))
        raise


def ended(session: Session, ids: Sequence[str], person: str = "") -> Result:
    """The jobs, when they have ended."""
    from gpuprov.core.waiting import SystemClock
    from gpuprov.stories.jobs import all_done, until_jobs_ended

    clock = SystemClock()
    jobs = until_jobs_ended(
        session.controller, session.cluster, ids, reporter=session.reporter, clock=clock, person=person
    )
    return _of_jobs(session, jobs, code=0 if all_done(jobs) else 1)


def _of_jobs(session: Session, jobs: tuple[Job, ...], *, code: int = 0) -> Result:
    from gpuprov.cli.jobs_table import name_failures
    from gpuprov.shapes.jobs import Jobs

    document = Jobs(jobs=jobs)
    reasons = name_failures(jobs) if session.screen.columns else ""
    return Result(document=document, text=f"{_table(session, document)}\n{reasons}", code=code)


def _table(session: Session, listed: Jobs) -> str:
    """A row a submission for people, and a row a job for scripts."""
    from gpuprov.cli.jobs_table import render_all_jobs, render_summary

    if session.screen.columns is None:
        return render_all_jobs(listed)
    return render_summary(listed, _names(session, listed.jobs), _now(), screen=session.screen)


def _names(session: Session, jobs: Sequence[Job]) -> Mapping[str, str]:
    """Short names of the GPUs of jobs, for a terminal."""
    uuids = {uuid for job in jobs for uuid in job.gpus}
    if session.screen.columns is None or not uuids:
        return {}
    from gpuprov.stories.gpu_names import name_gpus

    return name_gpus(uuids, session.fleet)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _watch(session: Session, interval_s: float, choice: JobChoice, person: str) -> None:
    from gpuprov.cli.jobs_table import render_job_change
    from gpuprov.cli.session import moment
    from gpuprov.core.rounds import every
    from gpuprov.core.waiting import SystemClock
    from gpuprov.shapes.base import changed
    from gpuprov.shapes.jobs import JobsWatch
    from gpuprov.stories.jobs import watch_jobs

    def first(listed: Jobs) -> None:
        document = changed(listed, host=session.host.name, cluster=session.cluster)
        session.show_round(document, _table(session, listed), at=moment())

    def tell(changes: Sequence[JobChange]) -> None:
        at = moment()
        text = "\n".join(f"{at} {render_job_change(change)}" for change in changes)
        document = JobsWatch(host=session.host.name, cluster=session.cluster, changes=tuple(changes))
        session.show_round(document, text, at=at)

    rounds = every(interval_s, SystemClock())
    watch_jobs(
        session.controller, session.cluster, rounds=rounds, choose=choice.of, first=first, tell=tell, person=person
    )


@command(page_port_option(QUEUE_PORT), cluster_option, engine_option)
def page(session: Session, port: int) -> None:
    """Let a browser on this host open the page of a cluster's queue (Flower), until Ctrl-C.

    Prints the address, and the user and password that the page asks for.
    """
    from gpuprov.core.relay import HERE
    from gpuprov.shapes.queue_page import QueuePage as Shown
    from gpuprov.stories.queue_page import relay_queue_page

    def ready(found: QueuePage) -> None:
        told = Shown(
            host=session.host.name,
            cluster=session.cluster,
            node=found.node,
            address=f"http://{HERE}:{port}/",
            user=found.user,
            password=found.password,
        )
        session.show(told, f"address: {told.address}\nuser: {told.user}\npassword: {told.password}")
        sys.stdout.flush()
        session.reporter.note("until Ctrl-C")

    relay_queue_page(session.controller, session.cluster, port, session.host, ready=ready, reporter=session.reporter)
