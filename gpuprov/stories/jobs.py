"""`submit`, `jobs` and the verbs below it: what a cluster is given to run, and what becomes of it; holds no lock."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.full_disks import find_full_disks
from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, TimedOut, Unreachable, UsageError
from gpuprov.core.names import name_cluster
from gpuprov.core.rounds import watch_rounds
from gpuprov.lifecycle.find_controller import get_controller
from gpuprov.project.imports import ask_imports
from gpuprov.project.order_check import NOTHING, judge_order
from gpuprov.project.outgoing_files import OutgoingProject
from gpuprov.roles.work.job_changes import compare_jobs
from gpuprov.roles.work.log_end import read_end
from gpuprov.roles.work.node_contents import require_imports
from gpuprov.roles.work.wait_reasons import explain_wait
from gpuprov.shapes.job_order import NUMBER
from gpuprov.shapes.jobs import JobChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.core.waiting import Clock
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
    from gpuprov.roles.work.job_controller import JobController
    from gpuprov.shapes.job_order import JobOrder
    from gpuprov.shapes.jobs import Job, JobLog, Jobs, JobsShown, JobSubmitted


WAIT_S: Final = 20  # that the program in the node waits by itself, before it is asked again
PATIENCE_S: Final = 120.0  # for a node or a batch system that is being restarted
RETRY_S: Final = 5.0
FOLLOW_S: Final = 1.0
NOTHING_REMOVED: Final = "no job was removed"
_NAMED: Final = 5


@dataclass(frozen=True, kw_only=True)
class ProjectChoice:
    """The folder whose files go with the jobs; None for none.

    Attributes:
        folder: An absolute path.
        chosen: Whether the user named it; else it is the current folder.
    """

    folder: Path | None
    chosen: bool = False


def submit_jobs(  # noqa: PLR0913 - what is run, where, and with whose files
    connect: Callable[[], Driver],
    cluster: str,
    order: JobOrder,
    project: ProjectChoice,
    *,
    host: Host,
    home: Path,
    reporter: Reporter,
    person: str = "",
) -> JobSubmitted:
    """Check the order and its project on this host, copy the project into a node, and hand the jobs in there.

    Args:
        connect: Opens the engine, once nothing is wrong with the order.
        cluster: Name of the cluster.
        order: What is to be run.
        project: The folder that goes with it.
        host: Has the folder that the cluster's nodes share.
        home: The user's.
        reporter: Is told what goes on.
        person: As whom the jobs run; empty for the account of jobs.

    Raises:
        UsageError: The order or the project is wrong, or the cluster takes no such jobs; nothing was submitted.
        SpecError: Nobody can tell what jobs of the cluster get by default; nothing was copied.
        EngineError: The node or its role refused.
        TimedOut: It did not end; the error says how to see whether it was submitted.
    """
    if not project.chosen:
        _refuse_home(project.folder, home)
    names = judge_order(order, project.folder)
    _warn_of_numbers(order, reporter)
    driver = connect()
    controller = get_controller(driver, cluster, verb="gpuprov submit", person=person)
    order = controller.accepted(order)
    if order.function is not None and project.folder is not None:
        require_imports(controller, ask_imports(project.folder, names, order.function.partition(":")[0]))
    with ExitStack() as until_submitted:
        place = None
        if project.folder is not None:
            outgoing = OutgoingProject(project.folder, names)
            with reporter.phase("copy"):
                place = until_submitted.enter_context(controller.holding(outgoing.tar()))
        try:
            with reporter.phase("submit"):
                submitted = controller.submit(order, place)
        except KeyboardInterrupt:
            reporter.warn(controller.named("see whether it was submitted: gpuprov jobs"))
            raise
    place, job = controller.place_of(submitted.id), submitted.id
    reporter.note(controller.named(f"results will be in {place}; to copy them here: gpuprov jobs pull {job}"))
    _tidy(controller, reporter)
    for line in find_full_disks(driver, host, controller.folder):
        reporter.warn(line)
    return submitted


def _tidy(controller: JobController, reporter: Reporter) -> None:
    try:
        removed = dict.fromkeys(job.submission for job in controller.tidy())
    except GpuprovError as error:
        reporter.warn(f"results older than jobs.keep were not removed: {error.what}: {error.evidence}")
        return
    if removed:
        reporter.note(f"removed jobs that ended longer ago than jobs.keep: {', '.join(removed)}")


def _refuse_home(folder: Path | None, home: Path) -> None:
    """Nobody means all that they have by a project."""
    if folder is not None and folder.resolve() in (home.resolve(), *home.resolve().parents):
        raise UsageError(
            f"the current folder is not a project; {NOTHING}",
            evidence=f"{folder} {'is' if folder.resolve() == home.resolve() else 'holds'} your home",
            fix="cd into the project, name its folder with --project, or use none: gpuprov submit --no-project",
        )


def _warn_of_numbers(order: JobOrder, reporter: Reporter) -> None:
    if order.count is not None and order.count > 1 and not order.numbered:
        reporter.warn(f"all {order.count} runs are the same: {NUMBER}, the number of a run, is not used")
    if order.count is None and order.numbered:
        reporter.warn(f"{NUMBER} stays as it is: it becomes the number of a run with --count only")


def all_jobs(driver: Driver, cluster: str, *, reporter: Reporter, person: str = "") -> Jobs:
    """All jobs of a cluster, or those of the newest submissions; that those of others are not listed is said."""
    controller = get_controller(driver, cluster, person=person)
    if controller.people and not person:
        names = ", ".join(controller.people[:_NAMED]) + (" and others" if controller.people[_NAMED:] else "")
        look = name_cluster(f"gpuprov jobs --as {controller.people[0]}", cluster)
        reporter.note(f"jobs of people are not listed ({names}); theirs: {look}")
    return controller.list_jobs()


def watch_jobs(  # noqa: PLR0913 - whose, when, which, and who is told
    driver: Driver,
    cluster: str,
    *,
    rounds: Iterable[None],
    choose: Callable[[Jobs], Jobs],
    first: Callable[[Jobs], object],
    tell: Callable[[Sequence[JobChange]], object],
    person: str = "",
) -> None:
    """Look once in each round; the first one is shown whole, later ones only where something has changed.

    Raises:
        GpuprovError: The first round could not be done.
    """
    watch_rounds(
        lambda _before: choose(get_controller(driver, cluster, person=person).list_jobs()),
        compare_jobs,
        rounds=rounds,
        first=first,
        tell=tell,
        trouble=lambda error: JobChange(kind="error" if error else "recovered", text=error or None),
    )


def show_jobs(driver: Driver, cluster: str, ids: Sequence[str], *, person: str = "") -> JobsShown:
    """Some jobs, and what was asked for.

    Raises:
        UsageError: There is no such job.
    """
    return get_controller(driver, cluster, person=person).show(ids)


def read_job_log(  # noqa: PLR0913 - whose log, how much of it, and who is told
    driver: Driver,
    cluster: str,
    job: str,
    *,
    follow: bool,
    tail: int | None,
    take: Callable[[JobLog], object],
    note: Callable[[str], object],
    clock: Clock,
    person: str = "",
) -> None:
    """Hand on the end of a job's log, piece by piece, and with `follow` what comes until the job has ended.

    Args:
        driver: The engine.
        cluster: Name of the cluster.
        job: Its id.
        follow: Whether to wait for more.
        tail: How many lines to begin with; None for all.
        take: Gets the pieces; the first one begins behind what is left out.
        note: Is told why the job waits, whenever that is another reason; and what it is if it ended without a word.
        clock: Where time comes from.
        person: Whose job; empty for one of the account.

    Raises:
        UsageError: There is no such job, or there are several of that id.
    """
    controller = get_controller(driver, cluster, person=person)
    pieces = read_end(controller, job, tail=tail)
    for piece in pieces:
        take(piece)
    piece, reason, asked_s = pieces[-1], "", None
    if piece.whole and not piece.size:
        note(_why_it_is_empty(controller, job))
    if piece.state == "running" and not piece.size:
        note(f"{job} runs, and has printed nothing yet")
    while not piece.whole:
        if piece.state == "waiting" and (asked_s is None or clock.now_s() - asked_s >= RETRY_S):
            before, asked_s = reason, clock.now_s()
            reason = _why_it_waits(controller, job)
            if reason and reason != before:
                note(f"{job} waits: {reason}")
        if not follow:
            return
        start = piece.next
        piece = controller.read_log(job, start)
        if piece.text or piece.whole:
            take(piece)
        if piece.next == start and not piece.whole:
            clock.sleep(FOLLOW_S)


def _why_it_waits(controller: JobController, job: str) -> str:
    return next(
        (explain_wait(one.reason or "for its turn") for one in controller.show([job]).jobs if one.state == "waiting"),
        "",
    )


def _why_it_is_empty(controller: JobController, job: str) -> str:
    ended = controller.show([job]).jobs[0]
    why = f": {ended.reason}" if ended.reason else ""
    return f"{job} printed nothing: {ended.state}{'' if ended.started else ' before it began'}{why}"


def cancel_jobs(driver: Driver, cluster: str, ids: Sequence[str], *, person: str = "") -> tuple[Job, ...]:
    """End jobs, waiting or running; what has ended stays as it is.

    Raises:
        UsageError: There is no such job; nothing was cancelled.
        TimedOut: Some had not ended in time.
    """
    return get_controller(driver, cluster, person=person).cancel(ids)


def remove_jobs(driver: Driver, cluster: str, ids: Sequence[str], *, person: str = "") -> tuple[Job, ...]:
    """Remove all that submissions have, and return the jobs that they were.

    Raises:
        UsageError: There is no such job, or it has not ended; nothing was removed.
    """
    controller = get_controller(driver, cluster, person=person)
    with _saying(NOTHING_REMOVED):
        return controller.remove(ids)


def describe_results(driver: Driver, cluster: str, ids: Sequence[str], *, person: str = "") -> list[str]:
    """What goes with the records of submissions, a line for each.

    Raises:
        UsageError: There is no such job.
    """
    controller = get_controller(driver, cluster, person=person)
    try:
        with _saying(NOTHING_REMOVED):
            shown = controller.show(ids)
    except (EngineError, HostNotReady):  # a job has changed its records, and they can be removed all the same
        return [f"{id_}: everything in {controller.place_of(id_)}" for id_ in ids]
    found: dict[str, list[Job]] = {}
    for job in shown.jobs:
        found.setdefault(job.submission, []).append(job)
    return [
        f"{id_} ({jobs[0].name}): {len(jobs)} run{'' if len(jobs) == 1 else 's'}, "
        f"everything in {controller.place_of(id_)}"
        for id_, jobs in found.items()
    ]


@contextmanager
def _saying(nothing: str) -> Iterator[None]:
    """Add to a refusal what was not done."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{error.what}; {nothing}", evidence=error.evidence, fix=error.fix) from error


def describe_left(driver: Driver, cluster: str, ids: Sequence[str], *, person: str = "") -> str:
    """What becomes of jobs that nobody waits for any more, and how to look at them and to end them."""
    return get_controller(driver, cluster, person=person).describe_left(*ids)


def until_jobs_ended(
    driver: Driver, cluster: str, ids: Sequence[str], *, reporter: Reporter, clock: Clock, person: str = ""
) -> tuple[Job, ...]:
    """The jobs, as soon as all have ended; a node or batch system that is unreachable for a short time is waited for.

    Raises:
        UsageError: There is no such job.
        GpuprovError: Nobody could tell for `PATIENCE_S`.
    """
    controller = get_controller(driver, cluster, person=person)
    heard_s: float | None = None
    with reporter.phase(f"wait for {', '.join(ids)}"):
        while True:
            try:
                jobs = controller.wait(ids, limit_s=WAIT_S)
            except (EngineError, TimedOut, Unreachable) as error:
                if heard_s is None or clock.now_s() - heard_s > PATIENCE_S:
                    raise
                reporter.warn(f"{error.what}; asking again")
                clock.sleep(RETRY_S)
                with suppress(GpuprovError):  # another node may have its place
                    controller = get_controller(driver, cluster, person=person)
                continue
            heard_s = clock.now_s()
            if jobs is not None:
                return jobs


def all_done(jobs: Iterable[Job]) -> bool:
    """Whether every job ended with status 0."""
    return all(job.state == "done" for job in jobs)
