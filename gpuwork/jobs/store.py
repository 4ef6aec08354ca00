"""The folder of jobs on the folder that all nodes share.

jobs/.code/SHA256/            frozen copies of projects
jobs/.held/NODE               while no run may begin on a node's workers; whoever makes it says in it who he is
jobs/.people/ann/0            locks: each run with a GPU holds one, of as many as ann may have GPUs; for workers
jobs/7/order.json             what was handed in
jobs/7/submitter.json         who handed it in, as far as that is known
jobs/7/run.sh                 what Slurm starts for each run
jobs/7/submitted.json         written when all of it was handed in; until then nothing was submitted
jobs/7/slots/, next           for workers: how many runs may be under way at once, and which is handed in next
jobs/7/cancelled              if the submission was cancelled
jobs/7/ended                  once each of its runs has a done.json
jobs/7/slurm/                 what the programs around the runs said
jobs/7/runs/3/                one run: log.txt, work/, home/, state.json, cancelled, done.json written last; two locks:
                              .lock is held by the program at the run, .alive by that and by what it started; .kills:
                              where it runs, and how many processes the kernel had killed there for lack of memory
"""

from __future__ import annotations

import os
import platform
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import read
from gpuprov.shapes.job_run import JobRun, JobSubmission
from gpuwork.errors import Refused, StoreError
from gpuwork.jobs.order import parse_order
from gpuwork.jobs.system import TRAITS
from gpuwork.record import render
from gpuwork.shared_folder import make_folder, write_file, write_once
from gpuwork.untrusted_files import has_entry, make_way_for_folder, names_in, read_limited, regain, what_is

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuprov.shapes.job_order import JobOrder
    from gpuwork.jobs.system import SystemTraits

CODE: Final = ".code"
HELD: Final = ".held"
LOCK: Final = ".lock"
ORDER: Final = "order.json"
SCRIPT: Final = "run.sh"
SUBMITTED: Final = "submitted.json"
CANCELLED: Final = "cancelled"
ENDED_MARK: Final = "ended"
SLURM: Final = "slurm"
RUNS: Final = "runs"
SLOTS: Final = "slots"
NEXT: Final = "next"
ALIVE: Final = ".alive"
KILLS: Final = ".kills"
LOG: Final = "log.txt"
WORK: Final = "work"
HOME: Final = "home"
_STATE: Final = "state.json"
_DONE: Final = "done.json"
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")
_ID: Final = re.compile(r"([1-9][0-9]{0,8})(?:\.(0|[1-9][0-9]{0,5}))?")
CHUNK: Final = 1000
_MOST_ID: Final = 10**9
MOST_BYTES: Final = 64 * 1024  # of what a run left of itself


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What was handed in at once.

    Attributes:
        folder: Its own.
        order: What is to be run.
        told: When it was handed in, with which code, and to what.
    """

    folder: Path
    order: JobOrder
    told: JobSubmission

    @property
    def id(self) -> str:
        """As people type it."""
        return self.folder.name

    @property
    def copy(self) -> Path | None:
        """The frozen copy of the project."""
        return self.folder.parent / CODE / self.told.code if self.told.code else None

    @property
    def traits(self) -> SystemTraits:
        """Of the system that has it."""
        return TRAITS[self.told.system]

    def run_folder(self, number: int) -> Path:
        """Where a run keeps what it has."""
        return self.folder / RUNS / str(number)

    def run_id(self, number: int) -> str:
        """The id of the job that this run is."""
        return self.id if self.order.count is None else f"{self.id}.{number}"


def parse_id(text: str) -> tuple[str, int | None]:
    """The submission and the number of the run that an id names; raises Refused where it is none."""
    match = _ID.fullmatch(text)
    if match is None:
        raise Refused(
            "that is not the id of a job",
            evidence=f"{ascii(text)[:100]} (allowed: 7, or 7.3 for run 3 of it)",
            fix="python3 -m gpuwork.jobs list",
        )
    return match[1], int(match[2]) if match[2] else None


def is_held(store: Path) -> bool:
    """Whether no run may begin on the workers of this node, which is about to go."""
    return os.path.lexists(store / HELD / platform.node())


def list_ids(store: Path) -> list[str]:
    """The ids of all that was submitted, in their order; what was never handed in in full is none of it.

    Nobody can tell of a folder without permission, so that counts.
    """
    numbers = list_numbers(store)
    return [number for number in numbers if has_entry(store / number / SUBMITTED) or what_is_wrong(store / number)]


def list_open(store: Path) -> list[str]:
    """The ids of what was submitted, in their order, but for submissions that are marked as ended."""
    return [number for number in list_ids(store) if not has_entry(store / number / ENDED_MARK)]


def list_numbers(store: Path) -> list[str]:
    """The numbers that are taken, in their order."""
    try:
        return sorted(filter(_NUMBER.fullmatch, names_in(store, folders=True)), key=int)
    except FileNotFoundError:
        return []


def what_is_wrong(folder: Path) -> str | None:
    """Why the folder of a submission or its runs cannot be listed, in words; None if it can."""
    try:
        names_in(folder, within=folder.parent)
    except OSError as error:
        return f"{folder} {error.strerror}"
    return None


def next_number(store: Path) -> str:
    """For a new submission; whoever asks holds the lock of the store."""
    taken = {int(name) for name in names_in(store) if _NUMBER.fullmatch(name)} if store.exists() else set()
    return str(next(number + 1 for number in (*sorted(taken, reverse=True), 0) if number + 1 not in taken | {_MOST_ID}))


def read_submission(folder: Path) -> Submission:
    """What was handed in; raises StoreError where it was changed or removed."""
    content = _read(folder, ORDER)
    order, faults = parse_order(content)
    try:
        told = read(JobSubmission, _read(folder, SUBMITTED))
    except ValueError as error:
        raise _changed(folder, f"{SUBMITTED}: {error}") from error
    if order is None or faults:
        raise _changed(folder, "; ".join(map(str, faults[:3])))
    size = told.chunks[0].size if told.chunks else CHUNK
    wanted = chunks_of(order.runs, size) if TRAITS[told.system].has_chunks else []
    if [(chunk.first, chunk.size) for chunk in told.chunks] != wanted:
        raise _changed(folder, f"{SUBMITTED} does not have the runs of {ORDER}")
    return Submission(folder=folder, order=order, told=told)


def _read(folder: Path, name: str) -> bytes:
    content = read_limited(folder / name, within=folder.parent)
    if content is None:
        size = "has more than 4 MiB" if has_entry(folder / name) else "is missing"
        raise _changed(folder, f"{name} {what_is(folder / name) or size}")
    return content


def chunks_of(runs: int, size: int) -> list[tuple[int, int]]:
    """The arrays of a size that hold so many runs: the number of the first run of each, and how many it has."""
    return [(first, min(size, runs - first)) for first in range(0, runs, size)]


def write_submitted(submission: Submission) -> None:
    """Tell that all of it was handed in."""
    write_file(submission.folder / SUBMITTED, render(submission.told))


def read_run_record(run: Path) -> JobRun:
    """What a run left of itself; a file that is no record counts as none."""
    for name in (_DONE, _STATE):
        content = _read_record(run, name)
        if content is not None:
            try:
                return read(JobRun, content)
            except ValueError:
                continue
    return JobRun()


def find_record_fault(run: Path) -> str | None:
    """What a job left in place of its run's folder or a record in it, in words; None if there is nothing."""
    if what_is(run) != "is a folder" or not os.access(run, os.R_OK | os.X_OK):
        kind = what_is(run) or "is a file"
        return f"{RUNS}/{run.name} {'may not be read' if kind == 'is a folder' else kind}"
    for name in (_DONE, _STATE):
        content = _read_record(run, name)
        if content is None and has_entry(run / name):
            return f"{name} {what_is(run / name) or f'has more than {MOST_BYTES:,} bytes'}"
        if content is not None:
            try:
                read(JobRun, content)
            except ValueError as error:
                return f"{name} {error}"
            return None
    return None


def _read_record(run: Path, name: str) -> bytes | None:
    return read_limited(run / name, limit=MOST_BYTES, within=run.parents[2])


def write_run_record(run: Path, record: JobRun) -> JobRun:
    """Keep a record, and return the one that holds: an end is never written again, whoever held which lock."""
    content = render(record)
    if record.state in ("waiting", "running"):
        write_file(run / _STATE, content)
    elif not write_once(run / _DONE, content):
        with suppress(ValueError):
            return read(JobRun, _read_record(run, _DONE) or b"")
        write_file(run / _DONE, content)  # what the job left there is no end
    return record


def mark_cancelled(submission: Submission, number: int | None) -> None:
    """Tell a run, or all of them, that they are not to begin, and why they are ended."""
    if number is None:
        mark_folder(submission.folder)
    else:
        run = submission.run_folder(number)
        make_way_for_folder(run)
        make_folder(run)
        mark_folder(run)


def mark_folder(folder: Path) -> None:
    """The same in the folder of a submission that cannot be read, or of a run."""
    regain(folder)
    if not has_entry(folder / CANCELLED):
        write_file(folder / CANCELLED, "")


def mark_ended(submission: Submission) -> None:
    """Tell that each of its runs has an end, which stays, so that nobody has to read them again."""
    with suppress(OSError):  # a full disk: they are read again
        write_file(submission.folder / ENDED_MARK, "", durable=False)


def is_cancelled(submission: Submission, number: int) -> bool:
    """Whether a run is not to begin, or was told to end."""
    return has_entry(submission.folder / CANCELLED) or has_entry(submission.run_folder(number) / CANCELLED)


@contextmanager
def writing(store: Path, *, failed: str) -> Iterator[None]:
    """Raise a StoreError for what the disk refuses in the block."""
    try:
        yield
    except OSError as error:
        raise StoreError(failed, evidence=str(error), fix=f"df -h {store}; ls -ld {store}") from error


def check_store(store: Path) -> None:
    """Raise a StoreError if the folder of jobs cannot be this account's."""
    refuse_link(store)
    place = store if store.exists() else store.parent
    if not place.is_dir():
        raise StoreError(
            "the shared folder does not exist; nothing was submitted",
            evidence=f"{place} is not a folder",
            fix=f"ls -ld {place}; mount",
        )
    owner = place.stat().st_uid
    if place == store and owner != os.geteuid():
        raise StoreError(
            "the folder of jobs belongs to another account; nothing was submitted",
            evidence=f"{store} belongs to uid {owner}, but this process has uid {os.geteuid()}",
            fix=f"ls -ldn {store}; if the jobs in it are this account's: chown -R {os.geteuid()} {store}",
        )


def refuse_link(store: Path) -> None:
    """Raise a StoreError if a job put a link where the folder of jobs was: it leads anywhere."""
    if store.is_symlink():
        raise StoreError(
            "the folder of jobs is a link, which gpuprov never makes",
            evidence=f"{store} leads to {ascii(str(store.readlink()))[:300]}",
            fix=f"rm {store}; and put the folder back to where it was, if it is still there: ls -la {store.parent}",
        )


def _changed(folder: Path, evidence: str) -> StoreError:
    return StoreError(
        f"{folder} is not a submission, or was changed",
        evidence=evidence[:1000],
        fix=f"python3 -m gpuwork.jobs rm {folder.name}",
    )
