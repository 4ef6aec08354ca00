"""Removes the folders of submissions that have ended, whatever their jobs left there."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.jobs import LIVE
from gpuwork.errors import Refused, StoreError
from gpuwork.jobs.following import earlier_of, refuse_followed
from gpuwork.jobs.overview import broken_job, list_live, pick_jobs
from gpuwork.jobs.store import RUNS, list_ids, parse_id, read_submission, writing
from gpuwork.jobs.waiting import find_broken
from gpuwork.shared_folder import make_folder
from gpuwork.untrusted_files import changed_s, make_way_for_folder, names_in, regain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.shapes.jobs import Job
    from gpuwork.jobs.batch import Batch

_MOST_AT_ONCE: Final = 100  # the next call goes on
_GONE: Final = ".gone"
_REMOVE_S: Final = 60.0
_SHOWN: Final = 5


def remove_submissions(store: Path, ids: Sequence[str], batch: Batch) -> list[Job]:
    """Remove all that submissions have, and return the jobs that they were; their numbers are not given again.

    Raises:
        Refused: There is no such job, it is one run of several, or it has not ended; nothing was removed.
        StoreError: It cannot be removed.
        BatchError: The batch system does not answer; nothing was removed.
    """
    for text in ids:
        if parse_id(text)[1] is not None:
            raise Refused(
                "single runs are not removed; nothing was removed",
                evidence=f"{text} is a run of {parse_id(text)[0]}",
                fix=f"python3 -m gpuwork.jobs show {parse_id(text)[0]}",
            )
    jobs = _find_jobs(store, ids, batch)
    live = [job for job in jobs if job.state in LIVE]
    if live:
        number = live[0].id.partition(".")[0]
        raise Refused(
            f"{len(live)} of {len(jobs)} jobs have not ended; nothing was removed",
            evidence=", ".join(f"{job.id} {job.state}" for job in live[:_SHOWN]),
            fix=f"python3 -m gpuwork.jobs cancel {number}",
        )
    refuse_followed(store, ids)
    _remove(store, ids)
    return jobs


def remove_old(store: Path, before_s: float, batch: Batch) -> list[Job]:
    """Remove the oldest submissions that ended before a time (seconds of the epoch); returns their jobs.

    They ended when something last changed among their runs, and what has not ended stays.
    """
    live = _numbers_of(list_live(store, batch)[0])
    old = [number for number in list_ids(store) if number not in live and _changed_s(store / number) < before_s]
    jobs = _find_jobs(store, old[:_MOST_AT_ONCE], batch) if old else []
    unlisted = _numbers_of([job for job in jobs if job.state in LIVE])  # for lack of room, or by a mark that a job made
    kept = {*unlisted, *_followed(store, live)}
    ended = [job for job in jobs if job.submission not in kept]
    if ended:
        _remove(store, _numbers_of(ended))
    return ended


def _followed(store: Path, live: Sequence[str]) -> set[str]:
    """What submissions that have not ended follow, and have to find."""
    found: set[str] = set()
    for number in live:
        with suppress(StoreError):
            found.update(earlier_of(read_submission(store / number).order))
    return found


def _find_jobs(store: Path, ids: Sequence[str], batch: Batch) -> list[Job]:
    broken = find_broken(store, ids)
    jobs = pick_jobs(store, [text for text in ids if text not in broken], batch)
    return jobs + [broken_job(store / number, error) for number, error in broken.items()]


def _numbers_of(jobs: Sequence[Job]) -> list[str]:
    return list(dict.fromkeys(job.id.partition(".")[0] for job in jobs))


def _remove(store: Path, numbers: Sequence[str]) -> None:
    with writing(store, failed="the jobs cannot be removed"):
        for number in dict.fromkeys(numbers):
            _empty(store, number)


def _changed_s(folder: Path) -> float:
    runs = folder / RUNS
    with suppress(OSError):
        return max(filter(None, map(changed_s, (folder, runs, *(runs / name for name in names_in(runs))))))
    return changed_s(folder) or time.time()


def _empty(store: Path, number: str) -> None:
    """Put an empty folder into the place of a submission, and remove what was there."""
    gone = store / _GONE
    make_way_for_folder(gone)
    make_folder(gone)
    regain(store / number)
    (store / number).rename(gone / f"{number}-{os.urandom(4).hex()}")
    (store / number).mkdir()
    # Neither follows links or minds how deep folders are; what these programs do not get to is removed the next time.
    for argv in (["chmod", "-R", "u+rwX", str(gone)], ["rm", "-rf", "--one-file-system", str(gone)]):
        try:
            done = subprocess.run(  # noqa: S603
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_REMOVE_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise _left(gone, f"{argv[0]} had not ended after {_REMOVE_S:g} s") from error
        if done.returncode and argv[0] == "rm":
            raise _left(gone, done.stderr.decode(errors="replace")[:300])


def _left(gone: Path, evidence: str) -> StoreError:
    return StoreError(
        "the jobs are listed no longer, but not all of their files could be removed",
        evidence=evidence,
        fix=f"rm -rf {gone}",
    )
