"""Hands runs in: everything that can be refused is, before anything is written."""

from __future__ import annotations

import fcntl
import shutil
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import changed
from gpuprov.shapes.job_run import Chunk, JobSubmission
from gpuwork.errors import Refused, refusal
from gpuwork.freeze import freeze, hash_files
from gpuwork.jobs.check import check_order
from gpuwork.jobs.following import require_earlier
from gpuwork.jobs.store import CODE, LOCK, ORDER, RUNS, Submission, check_store, next_number, write_submitted, writing
from gpuwork.jobs.submitter import find_submitter, write_submitter
from gpuwork.record import render, utc_moment
from gpuwork.shared_folder import locked, write_file
from gpuwork.untrusted_files import make_way_for_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.shapes.job_order import JobOrder
    from gpuwork.jobs.batch import Batch

_Read = tuple["JobOrder", list[str], "str | None"]
_NOTHING: Final = "the jobs cannot be written; nothing was submitted"
_PAGE: Final = "docs/jobs.md describes an order"


def submit(content: bytes, *, store: Path, batch: Batch) -> Submission:
    """Freeze the project, write what is to be run, and hand it in.

    Raises:
        Refused: With every fault of the order and of its project, or with what Slurm does not take; nothing is left.
        StoreError: The folder of jobs cannot be written; nothing was submitted.
        BatchError: The batch system does not answer, or refused; what it had of this was withdrawn.
    """
    order, names, code = _read(content, batch)
    check_store(store)
    require_earlier(store, order, system=batch.name)
    with writing(store, failed=_NOTHING), ExitStack() as held:
        submission = _write((order, names, code), store, batch, held)
        chunks: list[Chunk] = []
        try:
            batch.begin(order, submission.folder, tell=chunks.append)
            submission = replace(submission, told=changed(submission.told, chunks=tuple(chunks)))
            write_submitted(submission)
        except BaseException as error:
            _withdraw(submission.folder, chunks, batch)
            if isinstance(error, Refused) and not chunks:  # nobody has heard of this number
                with suppress(OSError):
                    submission.folder.rmdir()
            raise
    return submission


def _read(content: bytes, batch: Batch) -> _Read:
    """The order, the files of its project and their hash; an edit after this makes `freeze` refuse."""
    order, names, faults = check_order(content)
    if order is not None:
        faults += batch.find_faults(order)
    if faults or order is None:
        raise refusal(faults, of="the order", page=_PAGE)
    if order.project is None:
        return order, names, None
    try:
        return order, names, hash_files(Path(order.project), names)
    except OSError as error:
        raise Refused("the project cannot be read", evidence=str(error), fix=f"ls -l {order.project}") from error


def _write(read: _Read, store: Path, batch: Batch, held: ExitStack) -> Submission:
    """The folder of a submission, with all that its runs need; its lock is held for as long as `held` is."""
    order, names, code = read
    with locked(store), ExitStack() as undo:
        if code is not None and order.project is not None:
            make_way_for_folder(store / CODE)
            freeze(Path(order.project), names, code=code, into=store / CODE)
        folder = store / next_number(store)
        folder.mkdir()
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        held.enter_context(_locked_folder(folder))
        (folder / RUNS).mkdir()
        write_file(folder / ORDER, render(order))
        write_submitter(folder, find_submitter())
        batch.prepare(order, folder)
        undo.pop_all()
    now = utc_moment(datetime.now(timezone.utc))
    told = JobSubmission(submitted=now, code=code, system=batch.name, chunks=())
    return Submission(folder=folder, order=order, told=told)


@contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Runs that are started meanwhile wait for this lock; the kernel frees a killed process's."""
    with (folder / LOCK).open("x", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _withdraw(folder: Path, chunks: list[Chunk], batch: Batch) -> None:
    """Take all back, and leave the bare folder: a queue may know its number, so that is not used again."""
    batch.withdraw(chunks)
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
