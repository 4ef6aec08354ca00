"""Hands a project's missing runs in: everything that can be refused is, before anything is written."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.shapes.base import read
from gpuprov.shapes.grids import VALUES, GridSubmission
from gpuprov.shapes.limits import MIB
from gpuwork.errors import Refused, StoreError, refusal
from gpuwork.freeze import freeze, hash_files
from gpuwork.grid.expand import expand_grid
from gpuwork.grid.imports import refuse_lacked
from gpuwork.grid.missing import GridRequest, Missing, Planned, plan_missing
from gpuwork.grid.project import read_project
from gpuwork.grid.store import CODE, SUBMISSION, SUBMISSIONS, highest_number, list_params, render_values
from gpuwork.project_files import list_files
from gpuwork.record import render
from gpuwork.shared_folder import locked, make_folder, write_file
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from gpuprov.shapes.faults import Fault
    from gpuwork.grid.project import Source


@dataclass(frozen=True, kw_only=True)
class ProjectOrder:
    """What of a project is to be run.

    Attributes:
        project: Its folder.
        store: Where its runs are, in a folder that has the project's name.
        reps: How many good runs there are to be of each combination.
        minimal: One run, of defaults and values for debugging.
        first_only: Only the first combination.
        here: Whether it is run on this machine.
    """

    project: Path
    store: Path
    reps: int = 1
    minimal: bool = False
    first_only: bool = False
    here: bool = False


@dataclass(frozen=True, kw_only=True)
class SubmittedRuns:
    """Runs that were handed in together, and the folder that says so."""

    folder: Path
    told: GridSubmission

    @property
    def store(self) -> Path:
        """Where the runs are; the share may have another path on each machine."""
        return self.folder.parents[1]


def prepare_runs(order: ProjectOrder, *, under_way: Collection[str] = ()) -> tuple[SubmittedRuns | None, Missing]:
    """Freeze the project, make the folders of the runs that are missing, and return what was handed in.

    Returns:
        The submission, None where no run is missing; and what was and was not missing.

    Raises:
        Refused: With every fault of the project; nothing was written.
        HostLacks: It is to be run here, and this machine lacks modules.
        StoreError: The store cannot be written; nothing is submitted.
    """
    names, code, source = _read(order.project, here=order.here)
    combinations = expand_grid(source.grid, minimal=order.minimal, first_only=order.first_only)
    store = order.store
    with _told(store), locked(store), ExitStack() as undo:
        stamp = time.strftime("%Y-%m-%d-%H-%M-%S", time.gmtime())
        request = GridRequest(combinations=combinations, reps=order.reps, code=code, stamp=stamp)
        missing = plan_missing(request, list_params(store), highest=highest_number(store), under_way=under_way)
        if not missing.runs:
            return None, missing
        freeze(order.project, names, code=code, into=store / CODE)
        for run in missing.runs:
            _make_run(store, run, undo)
        told = GridSubmission(
            project=store.parent.name,
            code=code,
            module=source.module,
            varied=source.grid.varied,
            runs=tuple(run.name for run in missing.runs),
        )
        submission = SubmittedRuns(folder=_make_folder(store / SUBMISSIONS, stamp, undo), told=told)
        write_file(submission.folder / SUBMISSION, render(told))
        undo.pop_all()
    return submission, missing


def check_project(project: Path, *, here: bool = False) -> tuple[list[str], Source | None, list[Fault]]:
    """The files of a project, what it asks for, and everything that is wrong with it.

    Args:
        here: Whether it is to run on this machine.

    Raises:
        Refused: It cannot be read.
    """
    names, faults = list_files(project)
    source, found = read_project(project, names, here=here)
    return names, source, [*found, *faults]


def read_submitted_runs(folder: Path) -> SubmittedRuns:
    """What was handed in; raises StoreError where a folder holds no submission, or not all of one."""
    content = read_limited(folder / SUBMISSION, limit=16 * MIB)
    try:
        return SubmittedRuns(folder=folder.resolve(), told=read(GridSubmission, content or b""))
    except ValueError as error:
        why = "cannot be read" if content is None else f"is not as it was written: {error}"[:1000]
        raise StoreError(
            f"{folder} is not a submission",
            evidence=f"{folder / SUBMISSION} {why}",
            fix="python3 -m gpuwork.grid prepare PROJECT",
        ) from error


def _read(project: Path, *, here: bool) -> tuple[list[str], str, Source]:
    """The project's files, their hash, and what is asked for; an edit after this makes `freeze` refuse."""
    names, source, faults = check_project(project, here=here)
    if here:
        refuse_lacked(faults)
    if faults or source is None:
        page = "docs/grids.md describes what a project consists of"
        raise refusal(faults, of=str(project), page=page)
    try:
        return names, hash_files(project, names), source
    except OSError as error:
        raise Refused("the project cannot be read", evidence=str(error), fix="run the same command again") from error


def _make_run(store: Path, run: Planned, undo: ExitStack) -> None:
    folder = store / run.name
    if not (folder.parent / VALUES).exists():
        folder.parent.mkdir()
        undo.callback(shutil.rmtree, folder.parent, ignore_errors=True)
        text = render_values(run.values, param_name=folder.parent.name)
        write_file(folder.parent / VALUES, text, durable=False)  # one that a power cut took is made again
    if not folder.is_dir():
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
    make_folder(folder)


def _make_folder(parent: Path, stamp: str, undo: ExitStack) -> Path:
    make_folder(parent)
    folder, number = parent / stamp, 1
    while folder.exists():
        number += 1
        folder = parent / f"{stamp}_{number}"
    folder.mkdir()
    undo.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder.resolve()


@contextmanager
def _told(store: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"the runs cannot be written to {store}; nothing was submitted",
            evidence=str(error),
            fix=f"df -h {store.parent}; ls -ld {store.parent} {store}",
        ) from error
