"""Merging in a process of its own, which is ended where it takes too long."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuwork.anneal.order import read_annealed_run
from gpuwork.anneal.tree import climb, merge_all, write_texts
from gpuwork.child import run_group
from gpuwork.errors import StoreError, TimedOut, WorkError
from gpuwork.program import program_argv
from gpuwork.untrusted_files import read_part

if TYPE_CHECKING:
    from threading import Event

    from gpuwork.anneal.order import AnnealedRun

LOG: Final = "merge.log"
_ALL: Final = "all"
_TEXT: Final = "text"
_SHOWN: Final = 3000


def merge_within(run: AnnealedRun, *, part: int | None = None, text: bool = False, stop: Event | None = None) -> None:
    """Merge what can be merged, within the time limit of the run.

    Args:
        part: That has just ended; None: all of it has to be merged.
        text: Also write text files.
        stop: Ends it when it is set.

    Raises:
        TimedOut: It took too long.
        StoreError: Parts are missing, or something was changed or cannot be written.
    """
    log, limit_s = run.folder / LOG, run.order.settings.merge_limit_s
    where = str(part) if part is not None else _TEXT if text else _ALL
    argv = program_argv("gpuwork.anneal.merging", str(run.folder.resolve()), where)
    try:
        begin = log.stat().st_size if log.exists() else 0
        status = run_group(
            argv, cwd=run.folder, env=os.environ, log=log, stop=stop or threading.Event(), limit_s=limit_s
        )
    except OSError as error:
        raise StoreError("the result cannot be merged", evidence=str(error), fix=f"ls -ld {run.folder}") from error
    if status is None and not (stop is not None and stop.is_set()):
        raise TimedOut(
            f"merging {run.order.name} took longer than {limit_s} s and was ended; all parts are kept",
            evidence=f"merge_limit_s is {limit_s}",
            fix=f"python3 -m gpuwork.anneal merge {run.folder.parent}",
        )
    if status:
        said = (read_part(log, start=begin, most_bytes=_SHOWN) or (b"", 0))[0].decode(errors="replace").strip()
        raise StoreError(f"the result of {run.order.name} was not merged", evidence=said, fix=f"ls -lR {run.folder}")


def main(folder: str, where: str) -> None:
    """The program of that process."""
    run = read_annealed_run(Path(folder))
    try:
        if where in (_ALL, _TEXT):
            merge_all(run)
        else:
            climb(run, int(where))
        if where == _TEXT:
            write_texts(run)
    except WorkError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
