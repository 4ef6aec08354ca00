"""The program: stdout is the result, stderr is the conversation."""

from __future__ import annotations

import importlib
import sys
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.anneal import BEST_FILE, AnnealChecked, AnnealPrepared, AnnealShown, PreparedRun
from gpuprov.shapes.base import encode
from gpuprov.shapes.error import Error
from gpuwork.anneal.arguments import parse_arguments
from gpuwork.anneal.prepare import PAGE, ModelsOrder, check_pairs, get_part, open_runs, prepare
from gpuwork.errors import Refused, WorkError, refusal
from gpuwork.packages import lacks, require_here
from gpuwork.signals import on_signals

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from gpuprov.shapes.anneal import Run
    from gpuprov.shapes.base import Record
    from gpuwork.anneal.order import AnnealedRun

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_STOPPED: Final = 143
EXIT_INTERRUPTED: Final = 130
_FOR_PROGRAMS: Final = ("prepare", "merge", "show")  # a document on stdout, also for an error
_RUNS_CHAINS: Final = ("numpy", "numba.cuda.core.config")  # the last is numba-cuda's, which replaces a part of numba
_FEW: Final = 5


def main(arguments: list[str]) -> int:
    """Run the program on `arguments` (without its name) and return its exit code."""
    asked = parse_arguments(arguments)
    verbs = {"check": _check, "run": _run, "prepare": _prepare, "part": _part, "merge": _merge, "show": _show}
    try:
        return _serve() if asked.verb == "worker" else verbs[asked.verb](asked)
    except WorkError as error:
        _tell(str(error))
        if asked.verb in _FOR_PROGRAMS or getattr(asked, "json", False):
            _print(Error(error=error.parts))
        return error.exit_code
    except KeyboardInterrupt:
        _tell("interrupted")
        return EXIT_INTERRUPTED


def _order(asked: argparse.Namespace, *, with_settings: bool = True) -> ModelsOrder:
    typed = {"thread_count": asked.chains, "target": asked.target}
    overrides = {name: value for name, value in typed.items() if value is not None}
    return ModelsOrder(
        models=asked.models, configurations=asked.conf, overrides=overrides,
        with_settings=with_settings or bool(overrides),
    )  # fmt: skip


def _check(asked: argparse.Namespace) -> int:
    _, faults = check_pairs(_order(asked, with_settings=asked.to_run))
    if asked.here and not faults:
        require_here(_RUNS_CHAINS)
    if asked.json:
        _print(AnnealChecked(faults=tuple(faults)))
        return Refused.exit_code if faults else EXIT_DONE
    if faults:
        raise refusal(faults, of="the models and configurations", page=PAGE)
    sys.stdout.write("no faults\n")
    return EXIT_DONE


def _run(asked: argparse.Namespace) -> int:
    _, faults = check_pairs(_order(asked))
    if faults:
        raise refusal(faults, of="the models and configurations", page=PAGE)
    require_here(_RUNS_CHAINS)
    local = _import("gpuwork.anneal.local")
    stop = threading.Event()
    with on_signals(stop.set):
        devices = local.find_devices()
        folder = asked.out or _new_folder()
        runs = prepare(_order(asked), folder, parts=len(devices))
        codes: list[int] = []
        for run in runs:
            try:
                local.run_parts_here(run, devices, stop=stop, say=_tell, text=asked.text)
            except WorkError as error:  # the other runs still run
                aside = local.set_aside(folder, runs) if run is runs[-1] else None
                _tell(str(error).replace(str(folder), str(aside or folder)))
                codes.append(error.exit_code)
                continue
            except _import("gpuwork.anneal.part").Interrupted:
                aside = local.set_aside(folder, runs)
                _tell(f"interrupted; what has ended is in {aside or run.folder}")
                return EXIT_INTERRUPTED
            codes.append(_report(run))
    return max(codes)


def _new_folder() -> Path:
    return Path("anneal-runs", datetime.now(timezone.utc).strftime("%Y-%m-%d-%H-%M-%S"))


def _report(run: AnnealedRun) -> int:
    """Say what a run found; 1 if a chain has an error."""
    told: Run = _import("gpuwork.anneal.overview").describe_run(run)
    for trouble in told.troubles[:_FEW]:
        _tell(f"{trouble.kind}: {told.name}: chain {trouble.chain}, step {trouble.step}: {trouble.message}")
    left = told.errors + told.warnings - min(_FEW, len(told.troubles))
    if left:
        _tell(f"{left} more chains have errors or warnings")
    mark = " SIMULATED" if told.simulated else ""
    best = "no chain has a value" if told.best is None else f"best {told.best!r} of chain {told.best_chain}"
    sys.stdout.write(f"{told.name}: {best}, {told.chains} chains{mark}, in {run.folder}\n")
    if told.best_place:
        sys.stdout.write(f"  at {told.best_place}; all of it in {run.folder / BEST_FILE}\n")
    return EXIT_FAILED if told.errors else EXIT_DONE


def _prepare(asked: argparse.Namespace) -> int:
    orders = [run.order for run in prepare(_order(asked), asked.store, parts=asked.parts)]
    runs = tuple(PreparedRun(name=order.name, parts=order.parts) for order in orders)
    _print(AnnealPrepared(folder=str(asked.store), runs=runs, parts=sum(run.parts for run in runs)))
    return EXIT_DONE


def _part(asked: argparse.Namespace) -> int:
    part, merging = _import("gpuwork.anneal.part"), _import("gpuwork.anneal.merging")
    run, number = get_part(open_runs(asked.folder), asked.number)
    stop = threading.Event()
    with on_signals(stop.set):
        try:
            record = part.run_part(run, number, stop=stop)
        except part.Interrupted:
            return EXIT_STOPPED
        merging.merge_within(run, part=number, stop=stop)
    mark = " SIMULATED" if record.simulated else ""
    chains = f"chains {record.first} to {record.first + record.chains - 1}"
    sys.stdout.write(f"{run.order.name}.{number}: {chains} on {record.device}{mark}, {record.rate:.4g} steps/s\n")
    return EXIT_DONE


def _merge(asked: argparse.Namespace) -> int:
    runs, errors = open_runs(asked.folder), []
    for run in runs:
        try:
            _import("gpuwork.anneal.merging").merge_within(run, text=asked.text)
        except WorkError as error:  # noqa: PERF203  (the other runs are still merged)
            errors.append(error)
    if len(errors) == len(runs):
        raise errors[0]
    for failed in errors:
        _tell(str(failed))
    _print_runs(runs, with_series=False)
    return max((failed.exit_code for failed in errors), default=EXIT_DONE)


def _show(asked: argparse.Namespace) -> int:
    _print_runs(open_runs(asked.folder), with_series=asked.series)
    return EXIT_DONE


def _print_runs(runs: Iterable[AnnealedRun], *, with_series: bool) -> None:
    describe_run = _import("gpuwork.anneal.overview").describe_run
    _print(AnnealShown(runs=tuple(describe_run(run, with_series=with_series) for run in runs)))


def _serve() -> int:
    code: int = _import("gpuwork.anneal.predecessor.worker").serve_master()
    return code


def _import(name: str) -> Any:  # noqa: ANN401
    """What needs numpy, which the machine that only checks may lack."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("gpuwork"):
            raise
        raise lacks([str(error.name)], [str(error)]) from error


def _print(document: Record) -> None:
    sys.stdout.write(f"{encode(document).decode()}\n")


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
