"""Runs on this machine: a part for each of its GPUs, one after the other where it has none."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuwork.anneal.merging import merge_within
from gpuwork.anneal.part import Interrupted, run_part
from gpuwork.anneal.part_record import read_progress, read_record
from gpuwork.anneal.tree import is_merged
from gpuwork.errors import WorkError
from gpuwork.where import find_where

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from threading import Event

    from gpuwork.anneal.order import AnnealedRun

    Say = Callable[[str], object]

_LOOK_S: Final = 0.25
_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


def find_devices(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """What a part gets as CUDA_VISIBLE_DEVICES, for each part; one part without it where GPUs are simulated."""
    where = find_where(environment)
    return where.gpus if where.gpus and not where.simulated else ("",)


def run_parts_here(run: AnnealedRun, devices: Sequence[str], *, stop: Event, say: Say, text: bool = False) -> None:
    """Run all parts of a run, and merge them.

    Args:
        devices: Of this machine, at least as many as the run has parts.
        stop: Ends it when it is set.
        say: Is told the best value whenever there is a better one.
        text: Also write text files.

    Raises:
        WorkError: A part has no result; those of the others stay.
        Interrupted: `stop` was set.
    """
    over = threading.Event()
    teller = threading.Thread(target=_tell_bests, args=(run, over, say))
    teller.start()
    try:
        with ThreadPoolExecutor(run.order.parts) as pool:
            futures = [
                pool.submit(run_part, run, part, stop=stop, environment=_environment(device))
                for part, device in zip(range(run.order.parts), devices, strict=False)
            ]
            errors = [error for error in (future.exception() for future in futures) if error is not None]
    finally:
        over.set()
        teller.join()
    failed = [error for error in errors if not isinstance(error, Interrupted)]
    if stop.is_set() and not any(isinstance(error, WorkError) for error in failed):
        raise Interrupted
    if failed:
        raise failed[0]
    merge_within(run, text=text, stop=stop)
    if stop.is_set() and not is_merged(run):
        raise Interrupted


def set_aside(folder: Path, runs: Sequence[AnnealedRun]) -> Path | None:
    """Move a folder in which no part has a result, only logs, to where temporary files are.

    Returns:
        Where it is now; None if it has results, and stays.
    """
    if any(read_record(run.part(part)) is not None for run in runs for part in range(run.order.parts)):
        return None
    place = Path(tempfile.mkdtemp(prefix="gpuwork-anneal-"), folder.name)
    shutil.move(folder, place)
    return place


def _environment(device: str) -> dict[str, str]:
    return {**os.environ, _VISIBLE: device} if device else {**os.environ}


def _tell_bests(run: AnnealedRun, over: Event, say: Say) -> None:
    """Say the best value of all parts whenever it is better, not more than once in a while."""
    told: float | None = None
    began = time.monotonic()
    while not over.wait(_LOOK_S):
        found = [
            progress for progress in (read_progress(run.part(part)) for part in range(run.order.parts)) if progress
        ]
        bests = [progress.best for progress in found if progress.best is not None]
        if bests and (told is None or min(bests) < told):
            told = min(bests)
            step = max(progress.step for progress in found)
            spent_s = time.monotonic() - began
            say(f"{run.order.name}: best {told:.9g} at step {step} of {run.order.settings.max_steps}, {spent_s:.0f} s")
