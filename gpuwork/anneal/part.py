"""A part of a run, from its start to its result: a process that is watched, and ended where a time limit says so."""

from __future__ import annotations

import math
import os
import threading
import time
from typing import TYPE_CHECKING, Final

from gpuwork.anneal.division import PATIENCE_S as DIVIDE_S
from gpuwork.anneal.part_record import FAILURE, LOG, PROGRESS, RECORD, read_failure, read_progress, read_record
from gpuwork.child import run_group
from gpuwork.errors import StoreError, TimedOut, WorkError
from gpuwork.memory_kills import KILLED, MemoryKills, ran_out
from gpuwork.program import program_argv
from gpuwork.record import last_line
from gpuwork.shared_folder import make_folder, only_one
from gpuwork.where import SIMULATOR_VARIABLE, find_where

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from threading import Event

    from gpuprov.shapes.anneal import AnnealPart, Failure, Phase
    from gpuprov.shapes.anneal_settings import AnnealSettings
    from gpuwork.anneal.order import AnnealedRun

PATIENCE_S: Final = 20.0  # a killed try of the same part may be about to end
_LOOK_S: Final = 0.1
_WRITE_S: Final = 600
_SETTINGS: Final = {"compile": "compile_limit_s", "divide": "run_limit_s", "run": "run_limit_s"}  # of a phase's limit
_FEW: Final = 8  # lines of an error of CUDA's
_SHOWN: Final = 3000  # characters of a traceback


class PartFailed(WorkError):
    """A part has no result."""


class PartOutOfMemory(PartFailed):
    """The kernel killed its process for lack of memory; so ends what is told of it, and it is not run again."""

    exit_code = KILLED


class Interrupted(Exception):
    """The part was stopped from outside; it may be run again."""


def run_part(run: AnnealedRun, number: int, *, stop: Event, environment: Mapping[str, str] = os.environ) -> AnnealPart:
    """Run a part unless it has a result already; its chains are the same whenever and wherever it runs.

    Args:
        run: What it is of.
        number: Which part, from 0.
        stop: Ends it with all its processes when it is set.
        environment: Of the process: which GPU it sees, or that it is simulated.

    Raises:
        PartFailed: It has no result; a PartOutOfMemory where that is why.
        TimedOut: Compiling or running took longer than it may.
        Interrupted: `stop` was set.
        Elsewhere: Another process works on it.
        StoreError: There is no such part, or its folder cannot be written.
    """
    if not 0 <= number < run.order.parts:
        raise StoreError(
            f"{run.order.name} has no part {number}",
            evidence=f"it has parts 0 to {run.order.parts - 1}",
            fix=f"ls {run.folder}",
        )
    part = run.part(number)
    try:
        make_folder(part)
        with only_one(part, name=f"{run.order.name}.{number}", log=part / LOG, patience_s=PATIENCE_S, stop=stop):
            record = read_record(part)
            return record if record is not None else _run(run, number, part, stop, environment)
    except OSError as error:
        raise StoreError("a part cannot be written", evidence=str(error), fix=f"df -h {part}; ls -ld {part}") from error


def _run(run: AnnealedRun, number: int, part: Path, stop: Event, environment: Mapping[str, str]) -> AnnealPart:
    for name in (PROGRESS, FAILURE, RECORD):
        (part / name).unlink(missing_ok=True)
    ended = threading.Event()
    watch = _Watch(part, run.order.settings, ended, stop)
    watcher = threading.Thread(target=watch.until_ended)
    watcher.start()
    argv = program_argv("gpuwork.anneal.child", str(run.folder.resolve()), str(number), str(os.getpid()))
    kills = MemoryKills()
    try:
        status = run_group(
            argv, cwd=part, env=_with_simulator(environment), log=part / LOG, stop=ended, look=kills.look
        )
    finally:
        watch.over.set()
        watcher.join()
    if watch.exceeded:
        phase, limit_s = watch.exceeded
        raise TimedOut(
            f"part {number} of {run.order.name} was ended: {phase} took longer than {limit_s} s",
            evidence=last_line(part / LOG) or f"{limit_s} s is the limit of {phase}",
            fix=f"raise {_SETTINGS[phase]} in the configuration, or ask for less"
            if phase in _SETTINGS
            else f"df -h {part}; ls -l {part}",
        )
    record = read_record(part)
    if status == 0 and record is not None:
        return record
    if stop.is_set():
        raise Interrupted
    words = kills.explain(status or 0, "")
    if ran_out(words):
        fix = f"give the nodes more memory, or ask for fewer chains; less {part / LOG}"
        raise PartOutOfMemory(f"part {number} of {run.order.name} was killed", evidence=words, fix=fix)
    failure = read_failure(part)
    evidence, fix = _explain(failure, part)
    raise PartFailed(
        f"part {number} of {run.order.name} failed",
        evidence=evidence or last_line(part / LOG) or f"exit status {status}",
        fix=fix,
    )


def _with_simulator(environment: Mapping[str, str]) -> dict[str, str]:
    """Kernels run on numba's simulator where the GPUs are simulated, however the part was started."""
    wanted = SIMULATOR_VARIABLE not in environment and find_where(environment).simulated
    return {**environment, **({SIMULATOR_VARIABLE: "1"} if wanted else {})}


def _explain(failure: Failure | None, part: Path) -> tuple[str, str]:
    """The evidence of a failure, and what to type next."""
    if failure is None:
        return "", f"less {part / LOG}"
    lines = [line for line in failure.message.splitlines() if line.strip()]
    last = "\n".join(lines[-_FEW:])
    if failure.exception in ("CudaSupportError", "CudaDriverError"):
        return last, f"nvidia-smi; on a machine without a GPU, set {SIMULATOR_VARIABLE}=1 for numba's simulator"
    if "OUT_OF_MEMORY" in failure.message:
        return last, "the GPU has too little memory: ask for fewer chains, a shorter state or float32"
    if "OUT_OF_RESOURCES" in failure.message:
        return last, "a block of this kernel cannot have so many threads: omit threads_per_block, or lower it"
    return failure.message[-_SHOWN:], f"less {part / LOG}"


class _Watch:
    """Looks at how far a part is, and ends it when a phase takes too long."""

    def __init__(self, part: Path, settings: AnnealSettings, ended: Event, stop: Event) -> None:
        self._part = part
        self._limits = {
            "compile": settings.compile_limit_s,
            "divide": settings.run_limit_s + math.ceil(DIVIDE_S),  # chains run to be measured, then it waits
            "run": settings.run_limit_s,
            "write": _WRITE_S,
        }
        self._ended, self._stop = ended, stop
        self.over = threading.Event()
        self.exceeded: tuple[str, int] | None = None

    def until_ended(self) -> None:
        """Look until the process has ended, or has to."""
        phase: Phase = "compile"
        since = time.monotonic()
        while not self.over.wait(_LOOK_S):
            if self._stop.is_set():
                self._ended.set()
                return
            progress = read_progress(self._part)
            if progress is not None and progress.phase != phase:
                phase, since = progress.phase, time.monotonic()
            limit_s = self._limits.get(phase)
            if limit_s is not None and time.monotonic() - since > limit_s:
                self.exceeded = (phase, limit_s)
                self._ended.set()
                return
