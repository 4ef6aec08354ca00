"""The program: an order on stdin, one JSON document on stdout, also for an error."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from gpuprov.shapes.base import encode, write
from gpuprov.shapes.error import Error
from gpuprov.shapes.jobs import ENDED, JobChecked, JobLog, Jobs, JobsShown, JobSubmitted
from gpuprov.shapes.jobs import Submission as Described
from gpuprov.shapes.workers import Worker
from gpuprov.shapes.workers import Workers as WorkersTold
from gpuwork.broker import ask_workers, count_waiting, make_app, ping_workers
from gpuwork.broker_file import read_broker
from gpuwork.errors import Refused, StoreError, WorkError
from gpuwork.jobs.arguments import parse_arguments
from gpuwork.jobs.log import read_piece
from gpuwork.jobs.notification import read_notified
from gpuwork.jobs.order import MOST_BYTES
from gpuwork.jobs.overview import get_submission, list_jobs, list_live, pick_jobs
from gpuwork.jobs.removal import remove_old, remove_submissions
from gpuwork.jobs.slurm import Slurm
from gpuwork.jobs.store import parse_id, refuse_link, writing
from gpuwork.jobs.waiting import cancel, wait_for
from gpuwork.jobs.workers import Workers
from gpuwork.untrusted_files import what_is

if TYPE_CHECKING:
    import argparse

    from gpuprov.shapes.base import Record
    from gpuwork.jobs.batch import Batch
    from gpuwork.jobs.store import Submission

EXIT_DONE: Final = 0
EXIT_NOT_DONE: Final = 1
EXIT_INTERRUPTED: Final = 130
Reply = tuple["Record", int]


def main(arguments: list[str]) -> int:
    """Run the program on `arguments` (without its name) and return its exit code."""
    asked = parse_arguments(arguments)
    verbs = {"check": _check, "submit": _submit, "list": _list, "show": _show, "logs": _logs}
    verbs |= {"cancel": _cancel, "rm": _remove, "tidy": _tidy, "wait": _wait, "workers": _workers}
    store = _store(asked)
    try:
        with writing(store, failed="the folder of jobs cannot be read or written"):
            refuse_link(store)
            document, code = verbs[asked.verb](asked)
    except WorkError as error:
        document, code = Error(error=error.parts), error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    sys.stdout.write(f"{encode(document).decode()}\n")
    return code


def _check(_asked: argparse.Namespace) -> Reply:
    from gpuwork.jobs.check import check_order

    _, names, faults = check_order(_read_order())
    return JobChecked(files=tuple(names), faults=tuple(faults)), Refused.exit_code if faults else EXIT_DONE


def _submit(asked: argparse.Namespace) -> Reply:
    from gpuwork.jobs.submit import submit

    submission = submit(_read_order(), store=_store(asked), batch=_batch(asked))
    jobs = tuple(submission.run_id(number) for number in range(submission.order.runs))
    return JobSubmitted(id=submission.id, jobs=jobs), EXIT_DONE


def _read_order() -> bytes:
    return sys.stdin.buffer.read(MOST_BYTES + 1)


def _list(asked: argparse.Namespace) -> Reply:
    find = list_live if asked.live else list_jobs
    jobs, older = find(_store(asked), _batch(asked))
    return Jobs(jobs=tuple(jobs), older=older), EXIT_DONE


def _show(asked: argparse.Namespace) -> Reply:
    found = {submission.id: submission for submission in (get_submission(_store(asked), text) for text in asked.ids)}
    jobs = pick_jobs(_store(asked), asked.ids, _batch(asked))
    return JobsShown(jobs=tuple(jobs), submissions=tuple(map(_describe, found.values()))), EXIT_DONE


def _describe(submission: Submission) -> Described:
    return Described(
        id=submission.id,
        submitted=submission.told.submitted,
        code=submission.told.code,
        folder=str(submission.folder),
        slurm=tuple(chunk.slurm for chunk in submission.told.chunks),
        order=submission.order,
        notified=read_notified(submission) or UNSET,
    )


def _logs(asked: argparse.Namespace) -> Reply:
    jobs = pick_jobs(_store(asked), [asked.id], _batch(asked))
    if len(jobs) > 1 or (parse_id(asked.id)[1] is None and jobs[0].id != asked.id):
        raise Refused(
            "a log belongs to one run; name the run",
            evidence=f"{asked.id} has runs {jobs[0].id} to {jobs[-1].id}",
            fix=f"python3 -m gpuwork.jobs logs {jobs[0].id}",
        )
    wrong = what_is(Path(jobs[0].log))
    if wrong is not None:
        fix = f"python3 -m gpuwork.jobs show {jobs[0].id}"
        raise StoreError(f"the log of job {jobs[0].id} cannot be read", evidence=f"{jobs[0].log} {wrong}", fix=fix)
    has_ended = jobs[0].state in ENDED  # before the log is read: after that nothing is added
    piece = read_piece(Path(jobs[0].log), asked.start, is_whole=has_ended)
    is_last = has_ended and piece.next >= piece.size
    told = JobLog(id=jobs[0].id, state=jobs[0].state, text=piece.text, next=piece.next, size=piece.size, whole=is_last)
    return told, EXIT_DONE


def _cancel(asked: argparse.Namespace) -> Reply:
    return Jobs(jobs=tuple(cancel(_store(asked), asked.ids, _batch(asked)))), EXIT_DONE


def _remove(asked: argparse.Namespace) -> Reply:
    return Jobs(jobs=tuple(remove_submissions(_store(asked), asked.ids, _batch(asked)))), EXIT_DONE


def _tidy(asked: argparse.Namespace) -> Reply:
    return Jobs(jobs=tuple(remove_old(_store(asked), time.time() - asked.keep, _batch(asked)))), EXIT_DONE


def _wait(asked: argparse.Namespace) -> Reply:
    jobs = wait_for(_store(asked), asked.ids, _batch(asked), limit_s=asked.limit)
    return Jobs(jobs=tuple(jobs)), EXIT_DONE if all(job.state == "done" for job in jobs) else EXIT_NOT_DONE


def _workers(asked: argparse.Namespace) -> Reply:
    if not asked.broker.exists():
        raise Refused(
            "the jobs of this cluster run under Slurm: there are no workers",
            evidence=f"{asked.broker} is not there",
            fix="sinfo",
        )
    with make_app(read_broker(asked.broker)) as app:
        told = ask_workers(app, limit_s=asked.within, expected=asked.expect)
        asked_tasks = asked.expect is None  # who knows how many there are waits for answers alone
        idle = [worker.name for worker in told if asked_tasks and not worker.busy]
        seen = ping_workers(app, idle, limit_s=asked.within)
        rows = tuple(Worker(**write(one), task_gpu=seen.get(one.name)) for one in told)
        return WorkersTold(waiting=count_waiting(app), workers=rows), EXIT_DONE


def _batch(asked: argparse.Namespace) -> Batch:
    """Workers where there is a broker, else Slurm."""
    return Workers(asked.broker) if asked.broker.exists() else Slurm()


def _store(asked: argparse.Namespace) -> Path:
    return Path(asked.folder).absolute()
