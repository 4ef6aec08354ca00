"""The program: stdout is one JSON document, also for an error; stderr is the conversation."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.base import write
from gpuprov.shapes.faults import Fault
from gpuwork.errors import Refused, StoreError, WorkError
from gpuwork.packages import require_here
from gpuwork.programs.arguments import parse_arguments
from gpuwork.programs.check import examine_program
from gpuwork.programs.prepare import prepare_run
from gpuwork.programs.run_folder import read_run_folder, render_error
from gpuwork.programs.store import get_program, registered_programs, remove_registered
from gpuwork.programs.table import check_table
from gpuwork.programs.toolkit import find_toolkit
from gpuwork.signals import on_signals
from gpuwork.untrusted_files import names_in
from gpuwork.where import find_where

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from gpuwork.programs.store import Registered

CHECKED: Final = "gpuprov.program-checked/v1"
PREPARED: Final = "gpuprov.program-prepared/v1"
LOOKED: Final = "gpuprov.program-progress/v1"
PAGES: Final = "gpuprov.program-pages/v1"
PROGRAMS: Final = "gpuprov.programs/v1"
REMOVED: Final = "gpuprov.program-removed/v1"
EXIT_DONE: Final = 0
EXIT_INTERRUPTED: Final = 130

Printed = tuple[dict[str, Any], int]


class _Interrupted(BaseException):
    """A signal asks for the end."""


def main(arguments: list[str]) -> int:
    """Run the program on `arguments` (without its name) and return its exit code."""
    asked = parse_arguments(arguments)
    verbs = {"check": _check, "run": _run, "prepare": _prepare, "work": _work, "look": _look, "drop": _drop}
    verbs |= {"pages": _pages, "list": _list, "rm": _remove}
    try:
        with on_signals(_interrupt):
            document, code = verbs[asked.verb](asked)
    except WorkError as error:
        _tell(str(error))
        document, code = render_error(error), error.exit_code
    except _Interrupted:
        _tell("interrupted")
        return EXIT_INTERRUPTED
    sys.stdout.write(json.dumps(document) + "\n")
    return code


def _check(asked: argparse.Namespace) -> Printed:
    checked, faults = examine_program(asked.program, find_toolkit(), settings=dict(asked.settings))
    shape = None
    if asked.data is not None:
        try:
            shape, found = check_table(asked.data)
        except OSError as error:
            found = [Fault(file=asked.data.name, message=f"cannot be read: {error.strerror}")]
        faults = [*faults, *found]
    told = None
    if checked is not None:
        told = {"hash": checked.hash, "name": checked.config.name, "version": checked.config.version,
                "makes_dataset": checked.makes_dataset}  # fmt: skip
    document = {
        "schema": CHECKED, "version": 1, "program": told, "files": list(checked.files) if checked else [],
        "table": None if shape is None else {"rows": shape.rows, "columns": shape.columns},
        "left_out": list(checked.left_out) if checked else [], "faults": [*map(write, faults)],
    }  # fmt: skip
    for fault in faults:
        _tell(str(fault))
    return document, Refused.exit_code if faults else EXIT_DONE


def _run(asked: argparse.Namespace) -> Printed:
    toolkit, where = find_toolkit(), find_where()
    gpus = list(where.gpus)
    can_compile = not gpus or where.simulated or toolkit.nvcc is not None or toolkit.old is not None
    require_here(("dask", "distributed"), ("g++", "openssl"), others=() if can_compile else ("nvcc",))
    from gpuwork.programs.lead import lead
    from gpuwork.programs.meet import settle_dask

    settle_dask()
    workers = asked.workers or max(1, len(gpus))
    with tempfile.TemporaryDirectory(prefix="gpuwork-run-") as place:
        run = prepare_run(
            asked.program, asked.data, settings=dict(asked.settings), workers=workers, local=True,
            store=asked.store.absolute(), run=Path(place), toolkit=toolkit,
        )  # fmt: skip
        try:
            document = lead(run, gpus=_share(gpus, workers), tell=_tell_progress)
        except WorkError as error:
            raise _with_logs(error, run.path, asked.store.absolute()) from error
    return document, EXIT_DONE


def _share(gpus: Sequence[str], workers: int) -> list[str | None]:
    """The GPU of each worker; several have the same where there are more workers than GPUs."""
    return [gpus[number % len(gpus)] if gpus else None for number in range(workers)]


def _with_logs(error: WorkError, run: Path, store: Path) -> WorkError:
    """The same, with the logs of the run where they stay."""
    kept = store / "failed"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for log in run.glob("*.txt"):
        shutil.copy(log, kept)
    return type(error)(error.what, evidence=error.evidence, fix=error.fix.replace(str(run), str(kept)))


def _prepare(asked: argparse.Namespace) -> Printed:
    asked.runs.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="run-", dir=asked.runs))
    try:
        run = prepare_run(
            asked.program, asked.data, settings=dict(asked.settings), workers=asked.workers or 1, local=False,
            store=asked.store.absolute(), run=place, toolkit=find_toolkit(),
        )  # fmt: skip
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    program = run.registered
    document = {"schema": PREPARED, "version": 1, "run": str(place), "hash": program.hash, "name": program.name}
    return document, EXIT_DONE


def _work(asked: argparse.Namespace) -> Printed:
    run = read_run_folder(asked.run)
    if run.find_end() is not None:
        return {}, EXIT_DONE
    from gpuwork.programs.meet import serve_worker, settle_dask

    settle_dask()
    if asked.number:
        return {}, serve_worker(run, asked.number)
    from gpuwork.programs.lead import lead

    return lead(run, gpus=[None], tell=run.write_progress), EXIT_DONE


def _look(asked: argparse.Namespace) -> Printed:
    run = read_run_folder(asked.run)
    document = {"schema": LOOKED, "version": 1, "progress": run.find_progress(), "end": run.find_end()}
    return document, EXIT_DONE


def _drop(asked: argparse.Namespace) -> Printed:
    run = read_run_folder(asked.run)
    if run.find_end() is None:
        run.end(
            render_error(
                StoreError("the run was cancelled", evidence="its data was removed", fix="run the program again")
            )
        )
    return _look(asked)


def _pages(asked: argparse.Namespace) -> Printed:
    page = None
    try:
        places = [asked.runs / name for name in names_in(asked.runs, folders=True) if name.startswith("run-")]
    except OSError:
        places = []
    for place in sorted(places, key=_changed, reverse=True):
        with suppress(WorkError):
            run = read_run_folder(place)
            meeting = run.find_meeting()
            if run.find_end() is None and meeting is not None and meeting.page is not None:
                page = {"node": meeting.node, "port": meeting.page}
                break
    return {"schema": PAGES, "version": 1, "page": page}, EXIT_DONE


def _changed(place: Path) -> float:
    """When something in a folder changed; one that is gone is the oldest."""
    try:
        return place.stat().st_mtime
    except OSError:
        return 0.0


def _list(asked: argparse.Namespace) -> Printed:
    rows = [_row(one) for one in registered_programs(asked.store.absolute())]
    return {"schema": PROGRAMS, "version": 1, "programs": rows}, EXIT_DONE


def _remove(asked: argparse.Namespace) -> Printed:
    program = get_program(asked.store.absolute(), asked.hash)
    row = _row(program)
    remove_registered(program)
    return {"schema": REMOVED, "version": 1, "program": row}, EXIT_DONE


def _row(program: Registered) -> dict[str, Any]:
    return {
        "hash": program.hash, "name": program.name, "version": program.version,
        "registered": program.registered, "built_for": program.targets,
    }  # fmt: skip


def _tell_progress(told: dict[str, Any]) -> None:
    if told["iterations"] in (0, 1) or not told["iterations"] & (told["iterations"] - 1):  # 1, 2, 4, 8, ...
        _tell(f"{told['rows']} rows on {told['workers']} workers: {told['iterations']} iterations")


def _tell(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


def _interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise _Interrupted
