"""The tasks that every worker has: `gpuwork.ping`, `gpuwork.stats`, `gpuwork.run` and `gpuwork.call`.

A task is one worker's, and waits while that is busy. What all are asked at once is a command, `gpuwork_say`.
"""

from __future__ import annotations

import importlib
import logging
import os
import platform
import re
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from celery.exceptions import Reject
from celery.worker import state
from celery.worker.control import inspect_command
from msgspec import UNSET

from gpuprov.shapes.base import write
from gpuprov.shapes.jobs import ENDED
from gpuprov.shapes.workers import Pong, Said
from gpuwork.broker import PING_TASK, RUN_TASK, SAY, send_runs
from gpuwork.errors import StoreError, WorkError
from gpuwork.jobs.following import MAY, find_followers, judge
from gpuwork.jobs.notification import settle
from gpuwork.jobs.one import EXIT_STOPPED
from gpuwork.jobs.people import why_it_waits
from gpuwork.jobs.store import CANCELLED, is_cancelled, is_held, read_run_record, read_submission
from gpuwork.jobs.workers import first_runs, take_next
from gpuwork.machine import describe_machine
from gpuwork.untrusted_files import has_entry
from gpuwork.worker.gate import GATE_S
from gpuwork.worker.run_end import EXIT_DONE, EXIT_ENDED, JobCancelled, JobFailed, tell_end
from gpuwork.worker.waiting_runs import find_next_of_owner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from celery import Celery

    from gpuwork.worker.runs import LeashedRuns

_FUNCTION: Final = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")
_ID: Final = re.compile(r"[1-9][0-9]{0,8}")
_MOST_NUMBER: Final = 10**6
_NO_LIMIT_S: Final = 10**9  # a run has a limit of its own; those of an app are for the tasks of the app
_LOG: Final = logging.getLogger(__name__)


class _Named(Protocol):
    """What Celery hands to a command: the state of the worker that it asks."""

    hostname: str


def add_tasks(
    app: Celery, runs: LeashedRuns, *, gpu: str, project: Path | None, find_fault: Callable[[], str] = str
) -> None:
    """Give an app these tasks, also one of a user's project.

    Args:
        app: Celery's.
        runs: What makes runs of jobs.
        gpu: UUID of the worker's GPU.
        project: Whose functions are called.
        find_fault: Why the GPU may not be used, in words; empty where it may.
    """
    pid = os.getpid()  # of the worker; tasks run in a process of their own

    def ping() -> dict[str, Any]:
        return write(Pong(node=platform.node(), pid=pid, gpu=os.environ["CUDA_VISIBLE_DEVICES"]))

    def stats() -> dict[str, Any]:
        return describe_machine(gpu)

    def run(submission: object, number: object) -> str:
        return make_run(app, runs, submission, number)

    def call(function: object, arguments: object = None) -> object:
        return call_function(project, function, arguments)

    def say(worker: _Named) -> dict[str, Any]:
        busy = bool(tuple(state.active_requests))
        return write(Said(**ping(), name=worker.hostname, busy=busy, fault=find_fault() or UNSET))

    inspect_command(name=SAY)(say)
    late = {"acks_late": True, "reject_on_worker_lost": True}
    app.task(ping, name=PING_TASK, shared=False)
    app.task(stats, name="gpuwork.stats", shared=False)
    once = {"acks_on_failure_or_timeout": True, "acks_on_failure": True, "throws": (JobFailed, JobCancelled)}
    no_limit = {"time_limit": _NO_LIMIT_S, "soft_time_limit": _NO_LIMIT_S - 1}
    app.task(run, name=RUN_TASK, shared=False, ignore_result=True, **late, **once, **no_limit)
    app.task(call, name="gpuwork.call", shared=False, **late)


def make_run(app: Celery, runs: LeashedRuns, submission: object, number: object) -> str:
    """Make a run of a job; of a submission that limits its runs, hand in the next one. Return what became of it.

    A message says no more than that there may be something to do: a run that has ended is not run again, and one that
    goes on elsewhere is left alone. Its message is dropped then; should it wait later, the keeper finds it.

    Raises:
        Reject: The run was stopped because this worker ends, its node is held, or its GPU cannot be scrubbed; another
            worker gets the message.
        ValueError: The message names no run.
        JobFailed: The run failed, or could not be made.
        JobCancelled: It was cancelled.
    """
    id_, number = read_message(submission, number)
    if is_held(runs.store):
        time.sleep(GATE_S)  # or it would come back before this worker has left the queue
        raise Reject("its node is held", requeue=True)
    if _is_over(runs.store / id_, number):
        status = EXIT_ENDED
    elif why := _over_limit(runs.store / id_):
        return why  # its owner's next run that ends hands it in again
    elif why := runs.why_not(id_):
        _LOG.error("run %s.%s does not begin here: %s", id_, number, why)
        time.sleep(GATE_S)  # as above
        raise Reject(why, requeue=True)
    else:
        status = runs.make(id_, number)
    if status == EXIT_STOPPED:
        raise Reject("its worker ends, or its node is held", requeue=True)
    if status in (EXIT_DONE, EXIT_ENDED):
        try:
            told = read_submission(runs.store / id_)
            following = take_next(told) if told.order.at_most else None
            if following is not None and not has_entry(told.folder / CANCELLED):
                send_runs(app, told.id, [following])
            _begin_followers(app, runs.store, id_)
            owned = find_next_of_owner(runs.store, told)
            if owned is not None:
                send_runs(app, owned[0], [owned[1]])
        except WorkError as error:
            _LOG.warning("the next run of job %s was not submitted: %s", id_, error)
    settle(runs.store, [id_])
    return tell_end(runs.store / id_, number, status)


def _begin_followers(app: Celery, store: Path, id_: str) -> None:
    """Hand in what waited for the end of this submission, if that is what this run was."""
    for follower in find_followers(store, [id_]):
        if judge(store, follower.order)[0] == MAY:
            send_runs(app, follower.id, first_runs(follower.order))


def read_message(submission: object, number: object) -> tuple[str, int]:
    """The submission and the number of a run that a message names; raises ValueError if it names none."""
    if not isinstance(submission, str) or not _ID.fullmatch(submission):
        raise ValueError("the first argument is not the id of a submission")
    if type(number) is not int or not 0 <= number < _MOST_NUMBER:
        raise ValueError("the second argument is not the number of a run")
    return submission, number


def _over_limit(folder: Path) -> str:
    """That its owner has as many GPUs as they may, so that messages of thousands of their runs cost no time."""
    try:
        return why_it_waits(read_submission(folder))
    except StoreError:  # as below
        return ""


def _is_over(folder: Path, number: int) -> bool:
    """Whether there is nothing to do, so that thousands of messages of a cancelled submission cost no time."""
    try:
        told = read_submission(folder)
    except StoreError:  # it may just be being submitted: `one` knows
        return False
    return read_run_record(told.run_folder(number)).state in ENDED or is_cancelled(told, number)


def call_function(project: Path | None, function: object, arguments: object) -> object:
    """Call a function of the project in this process, which keeps what it loaded onto the GPU.

    Raises:
        ValueError: There is no project, or that is no function and its arguments.
    """
    match = _FUNCTION.fullmatch(function) if isinstance(function, str) else None
    if project is None:
        raise ValueError("this worker serves no project")
    if match is None or not isinstance(arguments, (dict, type(None))):
        raise ValueError("a call is MODULE:FUNCTION and an object of arguments")
    return getattr(importlib.import_module(match[1]), match[2])(**(arguments or {}))
