"""Waits for jobs to end, and ends them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.jobs import ENDED
from gpuwork.errors import StoreError, TimedOut
from gpuwork.jobs.notification import settle_aside
from gpuwork.jobs.overview import broken_job, get_submission, list_begun, lives, pick_jobs
from gpuwork.jobs.store import ALIVE, mark_cancelled, mark_folder, parse_id, writing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpuprov.shapes.jobs import Job
    from gpuwork.jobs.batch import Batch

CANCEL_S: Final = 30.0
_SHORTEST_LOOK_S: Final = 0.05
_LONGEST_LOOK_S: Final = 2.0
_LATE: Final = 0.05  # of the time waited so far: so much later than it happens an end may be seen
_SHOWN: Final = 5


def wait_for(store: Path, ids: Sequence[str], batch: Batch, *, limit_s: float) -> list[Job]:
    """The jobs, as soon as all have ended.

    Raises:
        Refused: There is no such job.
        TimedOut: Some had not ended when the time was over.
        BatchError: The batch system does not answer.
    """
    began = time.monotonic()
    while True:
        jobs = pick_jobs(store, ids, batch)
        left = [job for job in jobs if job.state not in ENDED]
        if not left:
            return jobs
        waited_s = time.monotonic() - began
        room_s = limit_s - waited_s
        if room_s <= 0:
            more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
            listed = ", ".join(map(_told, left[:_SHOWN]))
            raise TimedOut(
                f"{len(left)} of {len(jobs)} jobs had not ended after {limit_s:g} s",
                evidence=f"{listed}{more}",
                fix=f"python3 -m gpuwork.jobs show {left[0].id}",
            )
        time.sleep(min(room_s, _LONGEST_LOOK_S, max(_SHORTEST_LOOK_S, _LATE * waited_s)))


def _told(job: Job) -> str:
    return f"{job.id} {job.state} ({job.reason})" if job.state == "running" and job.reason else f"{job.id} {job.state}"


def cancel(store: Path, ids: Sequence[str], batch: Batch) -> list[Job]:
    """End jobs, and return them when they have ended; one that had ended before stays as it is.

    Raises:
        Refused: There is no such job; nothing was cancelled.
        StoreError: It cannot be written down.
        BatchError: The batch system does not answer; what waits does not begin, and what runs goes on.
        TimedOut: Some had not ended when the time was over.
    """
    broken = find_broken(store, ids)
    sound = [text for text in ids if parse_id(text)[0] not in broken]
    left = {job.id.partition(".")[0] for job in pick_jobs(store, sound, batch) if job.state not in ENDED}
    asked = [(get_submission(store, text), parse_id(text)[1]) for text in sound if parse_id(text)[0] in left]
    for name in broken:
        with writing(store, failed=f"the cancellation of {name} cannot be recorded"):
            mark_folder(store / name)
    for submission, number in asked:
        with writing(store, failed=f"the cancellation of {submission.id} cannot be recorded"):
            mark_cancelled(submission, number)
    batch.cancel(asked)
    ended = wait_for(store, sound, batch, limit_s=CANCEL_S) if sound else []
    settle_aside(store, list(dict.fromkeys(submission.id for submission, _ in asked)))
    return [*ended, *_wait_for_broken(store, broken)]


def find_broken(store: Path, ids: Sequence[str]) -> dict[str, StoreError]:
    """Why submissions cannot be read, by their numbers; raises Refused for an id of which there is nothing."""
    broken = {}
    for text in ids:
        try:
            list_begun(get_submission(store, text))
        except StoreError as error:  # noqa: PERF203  (each of its own)
            broken[parse_id(text)[0]] = error
    return broken


def _wait_for_broken(store: Path, broken: Mapping[str, StoreError]) -> list[Job]:
    """What nobody can read has ended once nothing of it lives; Slurm's tasks that wait end as soon as they begin."""
    until = time.monotonic() + CANCEL_S
    while living := [number for number in broken if lives(store / number)]:
        if time.monotonic() > until:
            raise TimedOut(
                f"{len(living)} of {len(broken)} jobs that cannot be read had not ended after {CANCEL_S:g} s",
                evidence=f"{', '.join(living[:_SHOWN])}: one of its processes holds {ALIVE}",
                fix="python3 -m gpuwork.jobs list",
            )
        time.sleep(_SHORTEST_LOOK_S)
    return [broken_job(store / number, error) for number, error in broken.items()]
