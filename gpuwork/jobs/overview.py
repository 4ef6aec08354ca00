"""The list of jobs: what the batch system says of runs, and what they left in their folders, as one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import changed
from gpuprov.shapes.job_run import JobRun
from gpuprov.shapes.jobs import ENDED, LIVE, Job
from gpuwork.errors import Refused, StoreError
from gpuwork.jobs.batch import Queued
from gpuwork.jobs.following import MAY, judge
from gpuwork.jobs.people import why_it_waits
from gpuwork.jobs.store import (
    ALIVE,
    CANCELLED,
    ENDED_MARK,
    LOG,
    RUNS,
    find_record_fault,
    list_ids,
    list_open,
    mark_cancelled,
    mark_ended,
    parse_id,
    read_run_record,
    read_submission,
)
from gpuwork.jobs.submitter import read_submitter
from gpuwork.jobs.workers import is_alive
from gpuwork.shared_folder import is_free
from gpuwork.untrusted_files import has_entry, names_in, regain

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from gpuprov.shapes.choices import JobState
    from gpuwork.jobs.batch import Batch, Find
    from gpuwork.jobs.store import Submission

MOST_LISTED: Final = 10_000
LOST: Final = "it is no longer queued, and how it ended was not recorded"
_REASON: Final = 300


def list_jobs(store: Path, batch: Batch) -> tuple[list[Job], int]:
    """The jobs of the newest submissions, 10,000 at most; and how many submissions are older than these.

    Raises:
        BatchError: The batch system does not answer.
    """
    ids = list_ids(store)  # before the queue is read: what is submitted meanwhile would seem lost
    find = batch.look()
    blocks: list[list[Job]] = []
    room = MOST_LISTED
    for number in reversed(ids):
        try:
            jobs = _jobs_of(read_submission(store / number), batch, find)
        except StoreError as error:
            jobs = [broken_job(store / number, error)]
        room -= len(jobs)
        if room < 0 and blocks:
            break
        blocks.append(jobs)
    return _in_order(blocks), len(ids) - len(blocks)


def list_live(store: Path, batch: Batch) -> tuple[list[Job], int]:
    """All jobs that run, however old they are, and those that wait, of the newest submissions, while there is room.

    A submission that has ended is read once, and marked. One that was changed is left out unless something of it lives;
    then it is one job.

    Returns:
        The jobs, and of how many submissions some that wait are left out.

    Raises:
        BatchError: The batch system does not answer.
    """
    ids = list_open(store)
    find = batch.look()
    blocks: list[list[Job]] = []
    room, shortened = MOST_LISTED, 0
    for number in reversed(ids):
        try:
            submission = read_submission(store / number)
            jobs = _jobs_of(submission, batch, find)
        except StoreError as error:
            broken = broken_job(store / number, error)
            blocks.append([broken] if broken.state == "running" else [])
            continue
        if _has_ended(submission, jobs):
            mark_ended(submission)
        live = [job for job in jobs if job.state in LIVE]
        if len(live) > room:
            live, shortened = [job for job in live if job.state == "running"], shortened + 1
        room -= len(live)
        blocks.append(live)
    return _in_order(blocks), shortened


def broken_job(folder: Path, error: StoreError) -> Job:
    """A submission that cannot be read, as one job: it runs while anything of it lives."""
    return Job(
        id=folder.name,
        name="?",
        state="running" if lives(folder) else "lost",
        submitter=None,
        submitted="?",
        log=str(folder / RUNS),
        reason=error.evidence[:_REASON],
    )


def lives(folder: Path) -> bool:
    """Whether anything of a submission lives, as far as its folder can be looked through."""
    runs = folder / RUNS
    for path in (folder, runs):
        regain(path)
    try:
        return not all(is_free(runs / name / ALIVE, within=folder.parent) for name in names_in(runs))
    except OSError:
        return False


def _in_order(blocks: list[list[Job]]) -> list[Job]:
    """The jobs of submissions, of which the newest comes first."""
    return [job for block in reversed(blocks) for job in block]


def _has_ended(submission: Submission, jobs: list[Job]) -> bool:
    """Whether each run has an end that stays; `lost` is none, nor `cancelled` if only a mark says so."""
    return all(
        job.state in ("done", "failed")
        or (job.state == "cancelled" and read_run_record(submission.run_folder(number)).state in ENDED)
        for number, job in enumerate(jobs)
    )


def pick_jobs(store: Path, ids: Sequence[str], batch: Batch) -> list[Job]:
    """The jobs with these ids; the id of a submission with a count stands for all its runs.

    Raises:
        Refused: There is no such job.
        StoreError: A submission was changed.
        BatchError: The batch system does not answer.
    """
    asked = [(get_submission(store, text), parse_id(text)[1]) for text in ids]
    find = batch.look()
    found: dict[str, Job] = {}
    for submission, number in asked:
        numbers = None if number is None else (number,)
        found.update((job.id, job) for job in _jobs_of(submission, batch, find, numbers))
    return list(found.values())


def get_submission(store: Path, text: str) -> Submission:
    """The submission that an id, also one of a run, belongs to; raises Refused if there is none."""
    number, run = parse_id(text)
    require_submitted(store, text)
    submission = read_submission(store / number)
    if run is None or (submission.order.count is not None and run < submission.order.runs):
        return submission
    raise _no_job(store, text)


def require_submitted(store: Path, text: str) -> None:
    """Raise Refused if there is nothing that an id belongs to, readable or not."""
    if parse_id(text)[0] not in list_ids(store):
        raise _no_job(store, text)


def _no_job(store: Path, text: str) -> Refused:
    return Refused("there is no such job", evidence=f"{text} is not in {store}", fix="python3 -m gpuwork.jobs list")


def _jobs_of(submission: Submission, batch: Batch, find: Find, numbers: Collection[int] | None = None) -> list[Job]:
    system = submission.told.system
    is_foreign = system != batch.name
    begun = list_begun(submission)
    all_cancelled = has_entry(submission.folder / CANCELLED)
    submitter = read_submitter(submission.folder)
    verdict, why = judge(submission.folder.parent, submission.order)
    limited = "" if has_entry(submission.folder / ENDED_MARK) else why_it_waits(submission)
    jobs = []
    for number in range(submission.order.runs) if numbers is None else numbers:
        run = submission.run_folder(number)
        there = str(number) in begun
        record = read_run_record(run) if there else JobRun()
        queued = None if is_foreign else find(submission, number)
        cancelled = all_cancelled or (there and has_entry(run / CANCELLED))
        if queued is None and record.state == "running" and is_alive(submission, number):
            queued = Queued(state="running")  # Slurm gave it up, but it lives
        state, reason = state_of_run(record, queued, cancelled=cancelled)
        if not there and verdict != MAY and state in (*LIVE, "lost"):
            state, reason = ("cancelled", why) if verdict == "never" else (state, why if state == "waiting" else reason)
        if state == "waiting":
            reason = "; ".join(filter(None, (reason, limited))) or None
        fault = find_record_fault(run) if there and record.state not in ENDED else None
        reason = "; ".join(filter(None, (fault, reason)))[:_REASON] or None
        if state == "lost":
            words = f"it was submitted to {system}" if is_foreign else batch.last_words(submission, number)
            reason = f"{reason}: {words}"[:_REASON] if words else reason
        job = _job(submission, number, record, queued, (state, reason))
        jobs.append(changed(job, submitter=submitter))
    return jobs if is_foreign else _tell_cancelled(submission, batch, jobs, begun)


def _tell_cancelled(submission: Submission, batch: Batch, jobs: list[Job], begun: Collection[str]) -> list[Job]:
    """Call cancelled what the batch system's own command ended; marked, as the system forgets it."""
    lost = {job.id for job in jobs if job.state == "lost"}
    ended = batch.find_cancelled(submission, [int(name) for name in begun if name.isdecimal()]) if lost else ()
    found = {submission.run_id(number): number for number in ended} if ended else {}
    cancelled = lost & found.keys()
    with suppress(OSError):  # a full disk: the system is asked again
        for number in [None] if len(cancelled) == submission.order.runs else sorted(found[id_] for id_ in cancelled):
            mark_cancelled(submission, number)
    return [changed(job, state="cancelled", reason=None) if job.id in cancelled else job for job in jobs]


def list_begun(submission: Submission) -> set[str]:
    """The numbers of the runs that have a folder.

    Raises:
        StoreError: That cannot be determined.
    """
    runs = submission.folder / RUNS
    try:
        return set(names_in(runs, within=submission.folder.parent))
    except OSError as error:
        raise StoreError(
            f"the runs of job {submission.id} cannot be listed",
            evidence=f"{runs}: {error.strerror}",
            fix=f"ls -ld {runs}",
        ) from error


def state_of_run(record: JobRun, queued: Queued | None, *, cancelled: bool) -> tuple[JobState, str | None]:
    """The state of a run and its reason. Pure.

    Args:
        record: What it left.
        queued: What the batch system said of it before that was read; None if it has the run no more.
        cancelled: Whether it was told to end.
    """
    if record.state not in ("waiting", "running"):
        return record.state, record.reason
    if queued is None:
        return ("cancelled", None) if cancelled else ("lost", LOST)
    if cancelled:
        told = f"; {record.reason}" if record.state == "running" and record.reason else ""
        return queued.state, f"is being cancelled{told}"[:_REASON]
    return queued.state, queued.reason if queued.state == "waiting" else record.reason


def _job(
    submission: Submission, number: int, record: JobRun, queued: Queued | None, told: tuple[JobState, str | None]
) -> Job:
    state, reason = told
    has_ended = state in ENDED  # else both are those of the try before
    return Job(
        id=submission.run_id(number),
        name=submission.order.title,
        state=state,
        tries=record.tries,
        node=record.node or (queued.node if queued else None),
        gpus=record.gpus,
        simulated=record.simulated,
        exit_status=record.exit_status if has_ended else None,
        submitted=submission.told.submitted,
        started=record.started,
        ended=record.ended if has_ended else None,
        log=str(submission.run_folder(number) / LOG),
        reason=reason,
    )
