"""The runs of workers that wait and of which nothing lives, as their folders tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.shapes.jobs import ENDED
from gpuwork.errors import StoreError
from gpuwork.jobs.following import MAY, judge
from gpuwork.jobs.overview import list_begun
from gpuwork.jobs.people import count_free, find_limit
from gpuwork.jobs.store import is_cancelled, list_open, read_run_record, read_submission
from gpuwork.jobs.workers import Workers, is_alive

if TYPE_CHECKING:
    from pathlib import Path

    from gpuwork.jobs.store import Submission


def find_waiting(submission: Submission) -> tuple[list[int], int]:
    """The runs that wait and may begin, and how many are alive; of a limited submission, as many as have a place.

    Raises:
        StoreError: The runs cannot be listed.
    """
    begun = list_begun(submission)
    waiting, alive = [], 0
    for number in range(submission.order.runs):
        if is_cancelled(submission, number):
            continue
        if str(number) not in begun:
            waiting.append(number)
        elif read_run_record(submission.run_folder(number)).state not in ENDED:
            if is_alive(submission, number):
                alive += 1
            else:
                waiting.append(number)
    at_most = submission.order.at_most
    return waiting if at_most is None else waiting[: max(0, at_most - alive)], alive


def find_next_of_owner(store: Path, ended: Submission) -> tuple[str, int] | None:
    """What its owner has waited for, where they may have so many GPUs: the first run of theirs that waits."""
    limit = find_limit(ended)
    if limit is None or not count_free(ended):
        return None
    for id_ in list_open(store):
        try:
            submission = read_submission(store / id_)
            if submission.told.system != Workers.name or find_limit(submission) != limit:
                continue
            waiting = find_waiting(submission)[0] if judge(store, submission.order)[0] == MAY else []
        except StoreError:  # the list of jobs says why
            continue
        if waiting:
            return id_, waiting[0]
    return None
