"""All runs of a project as one table: their values, how they ended, and the last value of each series."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final, TextIO

from gpuprov.shapes.cells import write_cells
from gpuprov.shapes.grids import HEAD
from gpuwork.errors import StoreError
from gpuwork.grid.series import list_series_files, read_series
from gpuwork.grid.store import list_params, read_done, read_values
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuprov.shapes.grids import GridDone

Row = dict[str, str]
# Parameters cannot have names that begin like these (values.py).
ABOUT: Final = ("state", "exit_status", "reason", "node", "gpus", "simulated", "started", "seconds", "code", "image")
_CELL: Final = 1000
_RUN, _LAST = "run.", "last."


def read_results(store: Path) -> list[Row]:
    """A row for each run, also those that failed or have not come to an end.

    The row of one whose values or series were changed says so.
    """
    return [row for param in list_params(store) for row in _rows(store, param.name, [run.name for run in param.runs])]


def columns_of(rows: list[Row]) -> list[str]:
    """The columns of rows: names of parameters and series in the order in which they first appear."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    about = [f"{_RUN}{name}" for name in ABOUT]
    last = [name for name in names if name.startswith(_LAST)]
    parameters = [name for name in names if name not in {*HEAD, *about, *last}]
    return [*HEAD, *parameters, *last, *about]


def write_results(rows: list[Row], into: TextIO) -> None:
    """Write rows as CSV."""
    columns = columns_of(rows)
    write_cells([columns, *([row.get(name, "") for name in columns] for row in rows)], into)


def _rows(store: Path, param: str, runs: list[str]) -> Iterator[Row]:
    about = {"param_name": param}
    try:
        values = {name: "" if value is None else str(value) for name, value in read_values(store / param).items()}
    except StoreError as error:
        failed = {f"{_RUN}state": "failed", f"{_RUN}reason": f"{error.what}: {error.evidence}"[:_CELL]}
        yield from ({**about, "job_name": run.rpartition("/")[2], **failed} for run in runs)
        return
    for run in runs:
        row = {**about, "job_name": run.rpartition("/")[2], **values}
        done = read_done(store / run)
        if done is None:
            yield {**row, f"{_RUN}state": "open"}
            continue
        yield {**row, **_about(done), **(_last_values(store / run) if done.state == "done" else {})}


def _about(done: GridDone) -> Row:
    cells = {}
    for name in ABOUT:
        value = getattr(done, name)
        values = value if isinstance(value, tuple) else (value,)
        words = (str(one) for one in values if isinstance(one, (str, int, float)))
        cells[f"{_RUN}{name}"] = " ".join(words)[:_CELL]
    return cells


def _last_values(run: Path) -> Row:
    cells = {}
    for path in list_series_files(run):
        try:
            rows = read_series((read_limited(path, within=run.parents[1]) or b"").decode().splitlines())
        except (ValueError, csv.Error) as error:  # noqa: PERF203  (the others are read)
            cells[f"{_RUN}reason"] = f"{path.name} was changed: {error}"[:_CELL]
        else:
            cells[f"{_LAST}{path.stem}"] = rows[-1][1][:_CELL] if rows else ""
    return cells
