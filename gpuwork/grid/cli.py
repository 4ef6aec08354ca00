"""The program: stdout is the result, stderr is the conversation."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import encode
from gpuprov.shapes.error import Error
from gpuprov.shapes.grids import RUNS, GridChecked, GridPrepared
from gpuwork.errors import Refused, StoreError, WorkError
from gpuwork.grid.arguments import parse_arguments
from gpuwork.grid.expand import expand_grid
from gpuwork.grid.imports import LackedModule, refuse_lacked
from gpuwork.grid.local import make_param_runs
from gpuwork.grid.one import Stopped, make_param_run
from gpuwork.grid.progress import Progress
from gpuwork.grid.results import read_results, write_results
from gpuwork.grid.submit import ProjectOrder, check_project, prepare_runs
from gpuwork.grid.tables import list_runs, list_series
from gpuwork.grid.values import hash_values
from gpuwork.signals import on_signals

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from gpuprov.shapes.base import Record
    from gpuwork.grid.missing import Missing

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130
_FOR_PROGRAMS: Final = ("check", "prepare", "list", "series")  # a document on stdout, also for an error


def main(arguments: list[str]) -> int:
    """Run the program on `arguments` (without its name) and return its exit code."""
    asked = parse_arguments(arguments)
    verbs = {"run": _run, "check": _check, "prepare": _prepare, "one": _one, "results": _results}
    verbs |= {"list": _list, "series": _series}
    try:
        return verbs[asked.verb](asked)
    except WorkError as error:
        _tell(str(error))
        if asked.verb in _FOR_PROGRAMS:
            _print(Error(error=error.parts))
        return error.exit_code
    except (KeyboardInterrupt, Stopped):
        _tell("interrupted; run the same command again to finish the remaining runs")
        return EXIT_INTERRUPTED


def _run(asked: argparse.Namespace) -> int:
    if not asked.local:
        raise Refused(
            "run works on this machine only",
            evidence="--local is missing",
            fix=f"python3 -m gpuwork.grid run {asked.project} --local",
        )
    with on_signals(_interrupt_once()):
        submission, missing = prepare_runs(_order(asked))
        _tell_missing(missing)
        progress = Progress(submission, say=_tell)
        if submission is not None:
            make_param_runs(submission, at_most=asked.at_most, tell=progress.tell)
    sys.stdout.write(f"{progress.summary}\n")
    return EXIT_FAILED if progress.failed else EXIT_DONE


def _check(asked: argparse.Namespace) -> int:
    names, source, faults = check_project(asked.project, here=asked.here)
    lacked = [fault for fault in faults if isinstance(fault, LackedModule)]
    if asked.here:
        refuse_lacked(faults)
    chosen = {"minimal": asked.minimal, "first_only": asked.first_only}
    values = expand_grid(source.grid, **chosen) if source and not faults else []
    told = tuple(fault for fault in faults if not isinstance(fault, LackedModule))
    # Where the packages of a `params.py` are, it can be run, and what is wrong is found there
    unknown = bool(lacked) and not told
    combinations = None if unknown else tuple(map(hash_values, values))
    _print(GridChecked(files=tuple(names), combinations=combinations, faults=told))
    return Refused.exit_code if told else EXIT_DONE


def _prepare(asked: argparse.Namespace) -> int:
    submission, missing = prepare_runs(_order(asked), under_way=_read_names(asked.under_way))
    _tell_missing(missing)
    told = GridPrepared(
        folder=str(submission.folder) if submission else None,
        runs=submission.told.runs if submission else (),
        done=missing.done,
        under_way=missing.under_way,
        other_code=missing.other_code,
    )
    _print(told)
    return EXIT_DONE


def _list(asked: argparse.Namespace) -> int:
    _print(list_runs(asked.store))
    return EXIT_DONE


def _series(asked: argparse.Namespace) -> int:
    _print(list_series(asked.store))
    return EXIT_DONE


def _print(document: Record) -> None:
    sys.stdout.write(f"{encode(document).decode()}\n")


def _read_names(file: str | None) -> frozenset[str]:
    if file is None:
        return frozenset()
    try:
        return frozenset((sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")).split())
    except (OSError, ValueError) as error:
        raise Refused(f"{file} cannot be read", evidence=str(error), fix=f"ls -l {file}") from error


def _one(asked: argparse.Namespace) -> int:
    stop = threading.Event()
    with on_signals(stop.set):
        ended = make_param_run(asked.folder, asked.number, stop=stop, retries=asked.retries)
    before = "already " if ended.before else ""
    end = f"{before}failed: {ended.reason}" if ended.exit_status else f"{before}done in {ended.seconds:.1f} s"
    _tell(f"{ended.name} {end}")
    return ended.exit_code


def _results(asked: argparse.Namespace) -> int:
    store = _store(asked)
    rows = read_results(store)
    if not rows:
        fix = f"python3 -m gpuwork.grid run {asked.project} --local"
        raise StoreError("there are no runs", evidence=f"{store} holds none", fix=fix)
    write_results(rows, sys.stdout)
    return EXIT_DONE


def _order(asked: argparse.Namespace) -> ProjectOrder:
    return ProjectOrder(
        project=asked.project,
        store=_store(asked),
        reps=asked.reps,
        minimal=asked.minimal,
        first_only=asked.first_only,
        here=asked.verb == "run",
    )


def _store(asked: argparse.Namespace) -> Path:
    """Where the runs of a project are.

    Raises:
        Refused: The share is not there; it may not be mounted.
    """
    if getattr(asked, "store", None) is not None:
        return Path(asked.store)
    if asked.share is not None and not asked.share.is_dir():
        raise Refused("there is no such share", evidence=f"{asked.share} is not a folder", fix=f"ls -ld {asked.share}")
    home = asked.project if asked.share is None else asked.share / asked.project.name
    return Path(home) / RUNS


def _tell_missing(missing: Missing) -> None:
    other = f" ({missing.other_code} with other code)" if missing.other_code else ""
    busy = f", under way: {missing.under_way}" if missing.under_way else ""
    _tell(f"to run: {len(missing.runs)}, done: {missing.done}{other}{busy}")


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _interrupt_once() -> Callable[[], None]:
    """What ends a run of several: the first signal; ending them takes seconds in which a second one changes nothing."""
    told = threading.Event()

    def interrupt() -> None:
        if not told.is_set():
            told.set()
            raise KeyboardInterrupt

    return interrupt
