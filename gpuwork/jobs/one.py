"""One run on a node, from its first try to its end; Slurm and workers start this for each run, and again if need be."""

from __future__ import annotations

import math
import os
import resource
import shutil
import sys
import threading
import time
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import changed
from gpuprov.shapes.jobs import ENDED
from gpuwork.child import open_log, run_group
from gpuwork.errors import Elsewhere, StoreError, WorkError
from gpuwork.freeze import check_copy
from gpuwork.jobs.crowding import Crowding, when_room
from gpuwork.jobs.following import WAITS, judge
from gpuwork.jobs.leftovers import TAG, VARIABLE, end_leftovers, keep_tag, tag_of
from gpuwork.jobs.notification import settle
from gpuwork.jobs.people import place_of_owner
from gpuwork.jobs.run_record import TryEnd, begin_try, end_try
from gpuwork.jobs.shared_memory import drop_shared_memory
from gpuwork.jobs.store import (
    ALIVE,
    HOME,
    KILLS,
    LOCK,
    LOG,
    SLOTS,
    SUBMITTED,
    WORK,
    Submission,
    is_cancelled,
    is_held,
    mark_ended,
    read_run_record,
    read_submission,
    write_run_record,
    writing,
)
from gpuwork.leash import on_leash_end
from gpuwork.memory_kills import KILLED, MemoryKills, explain_loss, ran_out
from gpuwork.program import program_argv
from gpuwork.record import utc_moment, why_failed
from gpuwork.shared_folder import is_free, make_folder, one_of, only_one
from gpuwork.signals import on_signals
from gpuwork.untrusted_files import has_entry
from gpuwork.where import SIMULATOR_VARIABLE, find_where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from threading import Event

    from gpuprov.shapes.job_run import JobRun

    Look = Callable[[], object]

EXIT_STOPPED: Final = 143
LEASHED: Final = "leashed"
# Whoever is told to end a run needs this long at most, so that the next one does not give up before.
PATIENCE_S: Final = 20.0
CANCEL_LOOK_S: Final = 0.2
_SUBMIT_S: Final = 300.0
_LOOK_S: Final = 0.1
_NO_ROOM: Final = 126
_NOT_FOUND: Final = 127
_SHOWN: Final = 5
_CACHES: Final = (".cache", ".nv")
# Slurm signals a run's processes in any order: the command may end of a signal that this program has not had yet.
_TOGETHER_S: Final = 0.1


def main(folder: str, number: str, leash: str = "") -> None:
    """The program: make the run and exit with its outcome.

    Args:
        folder: Of the submission.
        number: Of the run.
        leash: If `leashed`, the run is stopped when stdin ends, as it does when whoever started this is killed.
    """
    stop = threading.Event()
    if leash == LEASHED:
        on_leash_end(stop.set)
        keep_tag()
    try:
        with on_signals(stop.set):
            record = run_one(Path(folder), int(number), stop=stop)
            if leash != LEASHED:  # else whoever started this does it, and hands in the next run before
                settle(Path(folder).parent, [Path(folder).name])
    except WorkError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    sys.exit({"done": 0, "waiting": EXIT_STOPPED}.get(record.state, 1))


def run_one(folder: Path, number: int, *, stop: Event) -> JobRun:
    """Make a run of a submission, unless it has ended before.

    It may be called again for the same run at any time and on any node: a run has one end, which is never written
    again, and one process at a time works on it. A try that was killed is noticed by the next call.

    Args:
        folder: Of the submission.
        number: Which of its runs, from 0.
        stop: Ends the run with all its processes when it is set; it has no end then, unless it was cancelled.

    Raises:
        StoreError: There is no such run, it was never submitted, or nothing can be written.
        Elsewhere: Another process works on it.
    """
    _wait_until_submitted(folder)
    submission = read_submission(folder)
    if not 0 <= number < submission.order.runs:
        raise StoreError(
            f"job {submission.id} has no run {number}",
            evidence=f"it has runs 0 to {submission.order.runs - 1}",
            fix=f"python3 -m gpuwork.jobs show {submission.id}",
        )
    run = submission.run_folder(number)
    name, log = submission.run_id(number), run / LOG
    with writing(run, failed=f"the run {name} cannot be written"):
        make_folder(run)
        with only_one(run, name=name, log=log, patience_s=PATIENCE_S, stop=stop):
            record = read_run_record(run)
            if record.state not in ENDED:
                end_leftovers({VARIABLE: str(run)})
                with (
                    _place(submission) as places,
                    place_of_owner(submission) as owned,
                    only_one(run, name=name, log=log, lock=ALIVE, patience_s=PATIENCE_S, stop=stop) as alive,
                    _watching(submission, number, stop),
                ):
                    # After the lock: whoever holds the node sees that lock, or this sees that the node is held.
                    if not submission.traits.holds_nodes and is_held(folder.parent):
                        stop.set()
                    record = _Run(submission, number, record, (alive, *places, *owned)).until_ended(stop)
    return record


@contextmanager
def _place(submission: Submission) -> Iterator[tuple[int, ...]]:
    """Hold one of the places of a submission that limits its runs, unless its system does that itself.

    Raises:
        Elsewhere: As many runs as allowed are under way.
    """
    at_most = submission.order.at_most
    if submission.traits.limits_runs or at_most is None:
        yield ()
        return
    with one_of(submission.folder / SLOTS, at_most) as place:
        if place is None:
            raise Elsewhere(
                f"{at_most} runs of job {submission.id} are under way, as many as it may have",
                evidence=f"{submission.folder / SLOTS} has no free place",
                fix=f"python3 -m gpuwork.jobs show {submission.id}",
            )
        yield (place,)


@contextmanager
def _watching(submission: Submission, number: int, stop: Event) -> Iterator[None]:
    """In the block, set `stop` when the run is marked as cancelled."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(CANCEL_LOOK_S):
            if is_cancelled(submission, number):
                stop.set()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class _Run:
    """A run that has not ended; its folder is this process's alone."""

    def __init__(self, submission: Submission, number: int, record: JobRun, locks: tuple[int, ...]) -> None:
        self._submission = submission
        self._order = submission.order
        self._number = number
        self._folder = submission.run_folder(number)
        self._record = record
        self._locks = locks  # what the command starts holds them too: nobody repeats a run of which something lives

    def until_ended(self, stop: Event) -> JobRun:
        """Try until it is done, its tries are used up, it is cancelled, or `stop` is set."""
        if self._record.state == "running":  # whoever began this try was killed
            self._end(_judge_loss(self._folder))
        while self._record.state == "waiting":
            verdict, why = judge(self._submission.folder.parent, self._order)
            if is_cancelled(self._submission, self._number):
                self._end(TryEnd(kind="cancelled"))
            elif verdict == "never":
                self._end(TryEnd(kind="cancelled", reason=why))
            elif verdict == WAITS and not self._submission.traits.holds_nodes:
                raise Elsewhere(f"job {self._submission.id} {why}", evidence="it was started too early", fix="wait")
            elif stop.is_set():
                break
            else:
                self._record = begin_try(self._record, find_where(self._environment()), at=_now())
                write_run_record(self._folder, self._record)
                self._end(self._try(stop))
        return self._record

    def _end(self, end: TryEnd) -> None:
        self._record = end_try(self._record, end, retries=self._order.retries, at=_now())
        self._record = write_run_record(self._folder, self._record)
        if self._record.state in ENDED and self._order.runs == 1:
            mark_ended(self._submission)
        if self._record.state in ENDED:
            _drop_caches(self._folder / HOME)

    def _try(self, stop: Event) -> TryEnd:
        copy = self._submission.copy
        if copy is not None:
            check_copy(copy)
        work = self._folder / WORK
        _fill(work, copy)
        make_folder(self._folder / HOME)
        log = self._folder / LOG
        if self._record.tries > 1:
            with open_log(log) as file:
                file.write(f"--- try {self._record.tries} on {self._record.node}, {self._record.started}\n".encode())
        kills = MemoryKills(note=self._folder / KILLS)
        crowding = Crowding(str(self._folder))

        def look() -> bool:
            kills.look()
            return crowding.look()

        began = time.time()
        status = self._run_command(work, log, stop, look, crowding.room())
        left = end_leftovers({VARIABLE: str(self._folder)})
        drop_shared_memory({**os.environ, VARIABLE: str(self._folder)}, since=began)
        if stop.wait(_TOGETHER_S):  # also with status 0: programs that save what they have end so
            was_cancelled = is_cancelled(self._submission, self._number)
            if was_cancelled:
                self._end_all(left)
            return TryEnd(kind="cancelled" if was_cancelled else "waiting")
        if status is None and crowding.reason is not None:
            self._end_all(left)
            return TryEnd(kind="failed", reason=crowding.reason, is_final=True)
        if status == 0:
            return TryEnd(kind="done", exit_status=0)
        if status is None:
            return TryEnd(kind="failed", reason=f"ended after its time limit of {self._order.time_limit_s} s")
        reason = kills.explain(status, why_failed(log, status))
        if ran_out(reason):
            return TryEnd(kind="failed", exit_status=status, reason=reason, is_final=True)
        return TryEnd(kind="lost" if status == KILLED else "failed", exit_status=status, reason=reason)

    def _end_all(self, left: list[int]) -> None:
        """Go on until nothing lives: nobody is told before that the run was cancelled."""
        while left:
            shown = ", ".join(map(str, left[:_SHOWN]))
            reason = f"{len(left)} of its processes do not end on {self._record.node}: {shown}"
            self._record = write_run_record(self._folder, changed(self._record, reason=reason))
            left = end_leftovers({VARIABLE: str(self._folder)})

    def _run_command(self, work: Path, log: Path, stop: Event, look: Look, room: int | None) -> int | None:
        """The exit status; None if it was ended: it was told to, had its time, or took more than there is."""
        if self._order.function is None:
            argv = self._order.command_of(self._number)
        else:
            folder = str(self._submission.folder)
            argv = program_argv("gpuwork.jobs.call", folder, str(self._number), isolated=False)
        limit_s = self._order.time_limit_s or math.inf
        limits = {TAG: tag_of(str(self._folder)), **({} if room is None else {resource.RLIMIT_NPROC: room})}

        def begin() -> int | None:
            return run_group(
                argv, cwd=work, env=self._environment(), log=log, stop=stop, limit_s=limit_s, handles=self._locks,
                limits=limits, look=look,
            )  # fmt: skip

        try:
            return when_room(begin, stop)
        except OSError as error:
            has_room = not isinstance(error, BlockingIOError)
            if has_room and error.filename != argv[0]:
                raise
            with open_log(log) as file:
                file.write(f"{argv[0]}: {error.strerror}\n".encode())
            return _NOT_FOUND if has_room else _NO_ROOM

    def _environment(self) -> dict[str, str]:
        none = {} if self._order.has_gpu else {"CUDA_VISIBLE_DEVICES": "", SIMULATOR_VARIABLE: "0"}
        quiet = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **quiet, **none, "HOME": str(self._folder / HOME), VARIABLE: str(self._folder)}


def _wait_until_submitted(folder: Path) -> None:
    """Wait for whoever is handing this in; raises StoreError if that was never finished."""
    until = time.monotonic() + _SUBMIT_S
    while not has_entry(folder / SUBMITTED):
        if is_free(folder / LOCK) and not has_entry(folder / SUBMITTED):
            raise StoreError(
                "this was never submitted: the submission failed, or was interrupted",
                evidence=f"{folder / SUBMITTED} is not there",
                fix="python3 -m gpuwork.jobs list",
            )
        if time.monotonic() > until:
            raise Elsewhere(
                f"{folder} is still being submitted", evidence=f"{folder / LOCK} is locked", fix=f"ls -l {folder}"
            )
        time.sleep(_LOOK_S)


def _judge_loss(folder: Path) -> TryEnd:
    """How a try ended whose program was killed."""
    reason = explain_loss(folder / KILLS)
    if reason is not None:
        return TryEnd(kind="failed", exit_status=KILLED, reason=reason, is_final=True)
    return TryEnd(kind="lost", reason="its node was lost, or its program was killed")


def _fill(work: Path, copy: Path | None) -> None:
    """Make the folder in which a run begins: its own, with links to what the frozen copy has at its top."""
    make_folder(work)
    for path in () if copy is None else copy.iterdir():
        link = work / path.name
        if not link.is_symlink() and not link.exists():
            link.symlink_to(os.path.relpath(path, work))  # the shared folder has another path on the host


def _drop_caches(home: Path) -> None:
    """Remove what would make the next time faster: no other run has this home, and thousands of them fill a disk."""
    for cache in () if home.is_symlink() else _CACHES:
        with suppress(RecursionError):
            shutil.rmtree(home / cache, ignore_errors=True)


def _now() -> str:
    return utc_moment(datetime.now(timezone.utc))
