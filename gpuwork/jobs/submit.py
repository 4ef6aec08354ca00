"""Hands runs in: everything that can be refused is, before anything is written."""

from __future__ import annotations

import fcntl
import json
import shutil
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuwork.errors import Refused, SlurmError, refusal
from gpuwork.freeze import freeze, hash_files
from gpuwork.jobs.check import check_order
from gpuwork.jobs.order import as_document
from gpuwork.jobs.slurm import cancel_tasks, hand_in, render_run_script
from gpuwork.jobs.store import (
    CODE,
    LOCK,
    ORDER,
    RUNS,
    SCRIPT,
    SLURM,
    Chunk,
    Submission,
    check_store,
    next_number,
    write_submitted,
    writing,
)
from gpuwork.record import utc_moment
from gpuwork.shared_folder import locked, write_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuwork.jobs.order import Order

_NOTHING: Final = "the jobs cannot be written; nothing was submitted"
_PAGE: Final = "docs/jobs.md describes an order"


def submit(content: bytes, *, store: Path) -> Submission:
    """Freeze the project, write what is to be run, and hand it to Slurm.

    Raises:
        Refused: With every fault of the order and of its project; nothing was written.
        StoreError: The folder of jobs cannot be written; nothing was submitted.
        SlurmError: Slurm does not answer, or refused; what it had of this was cancelled.
    """
    order, names, code = _read(content)
    check_store(store)
    with writing(store, failed=_NOTHING), ExitStack() as held:
        submission = _write(order, names, code, store, held)
        chunks: list[Chunk] = []
        try:
            hand_in(order, submission.folder, tell=chunks.append)
            submission = replace(submission, chunks=tuple(chunks))
            write_submitted(submission)
        except BaseException:
            _withdraw(submission.folder, chunks)
            raise
    return submission


def _read(content: bytes) -> tuple[Order, list[str], str | None]:
    """The order, the files of its project and their hash; an edit after this makes `freeze` refuse."""
    order, names, faults = check_order(content)
    if faults or order is None:
        raise refusal(faults, of="the order", page=_PAGE)
    if order.project is None:
        return order, names, None
    try:
        return order, names, hash_files(Path(order.project), names)
    except OSError as error:
        raise Refused("the project cannot be read", evidence=str(error), fix=f"ls -l {order.project}") from error


def _write(order: Order, names: list[str], code: str | None, store: Path, held: ExitStack) -> Submission:
    """The folder of a submission, with all that its runs need; its lock is held for as long as `held` is."""
    with locked(store), ExitStack() as undo:
        if code is not None and order.project is not None:
            freeze(Path(order.project), names, code=code, into=store / CODE)
        folder = store / next_number(store)
        folder.mkdir()
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        held.enter_context(_locked_folder(folder))
        for name in (SLURM, RUNS):
            (folder / name).mkdir()
        write_file(folder / ORDER, json.dumps(as_document(order), indent=1) + "\n")
        write_file(folder / SCRIPT, render_run_script(folder))
        undo.pop_all()
    return Submission(
        folder=folder, order=order, submitted=utc_moment(datetime.now(timezone.utc)), code=code, chunks=()
    )


@contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Runs that Slurm starts meanwhile wait for this lock; the kernel frees a killed process's."""
    with (folder / LOCK).open("x", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _withdraw(folder: Path, chunks: list[Chunk]) -> None:
    """Take back what Slurm has, and leave the bare folder: Slurm may know its number, so that is not used again."""
    if chunks:
        with suppress(SlurmError):  # its runs find no `submitted.json`, and end
            cancel_tasks(str(chunk.slurm) for chunk in chunks)
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
