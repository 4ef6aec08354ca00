"""Waits for jobs to end, and ends them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from gpuwork.errors import SlurmError, TimedOut
from gpuwork.jobs.job import ENDED
from gpuwork.jobs.overview import find_submission, pick_jobs
from gpuwork.jobs.slurm import cancel_tasks, find_tasks, read_queue
from gpuwork.jobs.store import mark_cancelled, parse_id, writing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuwork.jobs.job import Job
    from gpuwork.jobs.store import Submission

CANCEL_S: Final = 30.0
_FIRST_LOOK_S: Final = 0.1
_LONGEST_LOOK_S: Final = 2.0
_SHOWN: Final = 5


def wait_for(store: Path, ids: Sequence[str], *, limit_s: float) -> list[Job]:
    """The jobs, as soon as all have ended.

    Raises:
        Refused: There is no such job.
        TimedOut: Some had not ended when the time was over.
        SlurmError: Slurm does not answer.
    """
    until, look_s = time.monotonic() + limit_s, _FIRST_LOOK_S
    while True:
        jobs = pick_jobs(store, ids)
        left = [job for job in jobs if job.state not in ENDED]
        if not left:
            return jobs
        room_s = until - time.monotonic()
        if room_s <= 0:
            more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
            listed = ", ".join(f"{job.id} {job.state}" for job in left[:_SHOWN])
            raise TimedOut(
                f"{len(left)} of {len(jobs)} jobs had not ended after {limit_s:g} s",
                evidence=f"{listed}{more}",
                fix=f"python3 -m gpuwork.jobs show {left[0].id}",
            )
        time.sleep(min(look_s, room_s))
        look_s = min(look_s * 1.5, _LONGEST_LOOK_S)


def cancel(store: Path, ids: Sequence[str]) -> list[Job]:
    """End jobs, and return them when they have ended; one that had ended before stays as it is.

    Raises:
        Refused: There is no such job; nothing was cancelled.
        StoreError: It cannot be written down.
        SlurmError: Slurm does not answer; what waits does not begin, and what runs goes on.
        TimedOut: Some had not ended when the time was over.
    """
    left = {job.id.partition(".")[0] for job in pick_jobs(store, ids) if job.state not in ENDED}
    asked = [(find_submission(store, text), parse_id(text)[1]) for text in ids if parse_id(text)[0] in left]
    for submission, number in asked:
        with writing(store, failed=f"that {submission.id} is cancelled cannot be written"):
            mark_cancelled(submission, number)
    wanted = _tasks_left(asked)
    if wanted:
        try:
            cancel_tasks(wanted)
        except SlurmError:  # of a task that has ended meanwhile it says that there is none
            if _tasks_left(asked):
                raise
    return wait_for(store, ids, limit_s=CANCEL_S)


def _tasks_left(asked: Sequence[tuple[Submission, int | None]]) -> list[str]:
    """What Slurm still has of submissions, or of one run of each."""
    queue = read_queue(os.geteuid())
    return sorted({task for submission, number in asked for task in find_tasks(queue, submission.chunks, number)})
