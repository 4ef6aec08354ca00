"""How a run ended, as Celery's events tell it: Flower shows a task as failed whose job failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuwork.errors import Elsewhere, StoreError
from gpuwork.jobs.store import is_cancelled, read_run_record, read_submission

if TYPE_CHECKING:
    from pathlib import Path

EXIT_DONE: Final = 0
EXIT_ENDED: Final = 1


class JobFailed(Exception):
    """Its words are what Flower shows; the job's record has the rest."""


class JobCancelled(Exception):
    """Somebody ended the job, or took it out of the queue."""


def tell_end(folder: Path, number: int, status: int) -> str:
    """What a task says whose run is done, or goes on elsewhere.

    Args:
        folder: Of the submission.
        number: Of the run.
        status: The exit status of `gpuwork.jobs.one`.

    Raises:
        JobFailed: The run failed, or could not be made.
        JobCancelled: It was cancelled.
    """
    if status == EXIT_DONE:
        return "done"
    if status == Elsewhere.exit_code:
        return "is under way elsewhere"
    try:
        told = read_submission(folder)
        record = read_run_record(told.run_folder(number))
    except StoreError as error:
        raise JobFailed(f"job {folder.name}: {error.what}") from None
    name = f"job {told.run_id(number)}"
    if record.state == "done":
        return "done"
    if record.state == "cancelled" or is_cancelled(told, number):
        raise JobCancelled(f"{name} was cancelled")
    if status != EXIT_ENDED:
        raise JobFailed(f"{name} could not be run, exit status {status}: the worker's log says why")
    raise JobFailed(f"{name} {record.state}: {record.reason or f'exit status {record.exit_status}'}")
