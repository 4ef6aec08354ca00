"""One run from a frozen copy: what a worker of a queue, a job of Slurm and the runner on this machine all call."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.grids import GridDone
from gpuwork.child import run_group
from gpuwork.errors import StoreError
from gpuwork.freeze import check_copy
from gpuwork.grid.store import CODE, DONE, read_done, read_values
from gpuwork.grid.submit import read_submitted_runs
from gpuwork.grid.values import hash_values
from gpuwork.memory_kills import KILLED, MemoryKills, ran_out
from gpuwork.program import program_argv
from gpuwork.record import render, utc_moment, why_failed
from gpuwork.shared_folder import only_one, write_file
from gpuwork.untrusted_files import open_anew, read_limited
from gpuwork.where import find_where

if TYPE_CHECKING:
    from pathlib import Path
    from threading import Event

    from gpuwork.grid.submit import SubmittedRuns
    from gpuwork.where import Where

LOG: Final = "log.txt"
SAVES: Final = "saves"
_TRIES: Final = ".tries"


class Stopped(Exception):
    """The run was told to stop; it has no end and will be made again."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run ended, now or before.

    Attributes:
        name: Its folder, relative to the store.
        exit_status: 0 if it is done.
        reason: Why it failed.
        before: Whether it had ended before, so that nothing was run.
        seconds: How long it took.
        simulated: Whether its GPUs were.
    """

    name: str
    exit_status: int
    reason: str
    before: bool
    seconds: float
    simulated: bool

    @property
    def exit_code(self) -> int:
        """Of a program that made it: that of a killed command where memory was lacking, so that it is not made again.

        Whoever started the program then looks whether something was killed, as the program itself did.
        """
        if ran_out(self.reason) and not self.before:
            return KILLED
        return 1 if self.exit_status else 0


def make_param_run(folder: Path, number: int, *, stop: Event, retries: int = 0) -> Ended:
    """Make run `number` of a submission, unless it has come to an end before.

    It may be called again for the same run at any time and from any machine: a run has one end, which is never
    overwritten, and one process at a time works on it.

    Args:
        folder: Of the submission.
        number: Which of its runs, from 0.
        stop: Ends the run with all its processes when it is set.
        retries: How many more tries of this submission a run gets that fails, from whoever calls this again. Until
            they are used up, it has no end.

    Raises:
        StoreError: There is no such run, the frozen copy was changed, or nothing can be written.
        Elsewhere: Another process works on it.
        Stopped: As told.
    """
    submission = read_submitted_runs(folder)
    if not 0 <= number < len(submission.told.runs):
        raise StoreError(
            f"the submission has no run {number}",
            evidence=f"{folder} has runs 0 to {len(submission.told.runs) - 1}",
            fix=f"python3 -m gpuwork.grid one {folder} 0",
        )
    run = submission.store / submission.told.runs[number]
    try:
        with only_one(run, name=submission.told.runs[number], log=run / LOG):
            before = read_done(run)
            if before is not None:
                return _ended(submission.told.runs[number], before, before=True)
            return _ended(submission.told.runs[number], _run(submission, run, stop, retries), before=False)
    except OSError as error:
        raise StoreError(
            f"the run {submission.told.runs[number]} cannot be written",
            evidence=str(error),
            fix=f"df -h {submission.store}; ls -ld {run}",
        ) from error


def _ended(name: str, done: GridDone, *, before: bool) -> Ended:
    return Ended(
        name=name,
        exit_status=done.exit_status,
        reason=done.reason or "",
        before=before,
        seconds=done.seconds,
        simulated=done.simulated,
    )


def _run(submission: SubmittedRuns, run: Path, stop: Event, retries: int) -> GridDone:
    copy = submission.store / CODE / submission.told.code
    check_copy(copy)
    values = read_values(run.parent)
    for left in run.glob("*.csv"):  # of a try that was cut off; what it saved may be what the job goes on from
        left.unlink()
    (run / SAVES).mkdir(exist_ok=True)
    where = find_where()
    tries, tries_now = _count_try(run, where, submission)
    began, started = time.monotonic(), datetime.now(timezone.utc)
    argv = program_argv("gpuwork.grid.call", str(run), str(copy), submission.told.module, str(os.getpid()))
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    kills = MemoryKills()
    status = run_group(argv, cwd=run / SAVES, env=env, log=run / LOG, stop=stop, look=kills.look)
    if status is None:
        raise Stopped(run.name)
    reason = kills.explain(status, why_failed(run / LOG, status)) if status else None
    done = GridDone(
        run=f"{run.parent.name}/{run.name}",
        state="done" if status == 0 else "failed",
        exit_status=status,
        reason=reason,
        node=where.node,
        gpus=where.gpus,
        simulated=where.simulated,
        started=utc_moment(started),
        ended=utc_moment(datetime.now(timezone.utc)),
        seconds=round(time.monotonic() - began, 3),
        tries=tries,
        code=submission.told.code,
        values=hash_values(values),
        image=where.image,
    )
    if status == 0 or tries_now > retries or ran_out(reason):
        write_file(run / DONE, render(done))
    return done


def _count_try(run: Path, where: Where, submission: SubmittedRuns) -> tuple[int, int]:
    """Add a try; how many there are now, of all submissions and of this one."""
    handle = open_anew(run / _TRIES, os.O_WRONLY | os.O_APPEND)
    with os.fdopen(handle, "a", encoding="utf-8") as file:
        file.write(f"{utc_moment(datetime.now(timezone.utc))} {where.node} {submission.folder.name}\n")
    lines = (read_limited(run / _TRIES) or b"").splitlines()
    return len(lines), sum(line.endswith(f" {submission.folder.name}".encode()) for line in lines)
