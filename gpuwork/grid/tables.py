"""A store for programs: all of its runs as one table, what was submitted together, and the series to draw."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.grids import Combination, GridListed, GridSeries, is_stamp
from gpuwork.errors import StoreError
from gpuwork.grid.results import columns_of, read_results
from gpuwork.grid.series import list_series_files, read_series
from gpuwork.grid.store import SUBMISSIONS, list_params, read_values
from gpuwork.grid.submit import read_submitted_runs
from gpuwork.grid.values import label
from gpuwork.untrusted_files import names_in, read_limited

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuwork.grid.store import Param
    from gpuwork.grid.values import ParameterValue

MOST_COMBINATIONS: Final = 200  # that are drawn
MOST_SERIES: Final = 20
MOST_RUNS: Final = 10  # of a combination
MOST_POINTS: Final = 200
_LABEL: Final = 200

Points = tuple[tuple[str, str], ...]


def list_runs(store: Path) -> GridListed:
    """All runs as rows below columns, the hash of each combination's values, and the runs of each submission."""
    rows = read_results(store)
    columns = tuple(columns_of(rows))
    return GridListed(
        columns=columns,
        rows=tuple(tuple(row.get(name, "") for name in columns) for row in rows),
        combinations={param.name: param.values_hash for param in list_params(store)},
        submissions=_submissions(store),
    )


def list_series(store: Path) -> GridSeries:
    """The series of the runs that are done, by combination; `left_out` counts combinations without room."""
    params = [param for param in list_params(store) if any(run.state == "done" for run in param.runs)]
    drawn = params[:MOST_COMBINATIONS]
    values = [_values_of(store / param.name) for param in drawn]
    names = dict.fromkeys(name for one in values for name in one)
    varied = [name for name in names if len({repr(one.get(name)) for one in values}) > 1]
    labels = [label(one, tuple(name for name in varied if name in one))[:_LABEL] for one in values]
    combinations = tuple(_drawn(store, param, text) for param, text in zip(drawn, labels, strict=True))
    return GridSeries(combinations=combinations, left_out=len(params) - len(drawn))


def _values_of(param: Path) -> Mapping[str, ParameterValue]:
    """The values of a combination; none where a job changed them, as the table of runs says."""
    try:
        return read_values(param)
    except StoreError:
        return {}


def _drawn(store: Path, param: Param, text: str) -> Combination:
    """The series of a combination by name: for each run, its points."""
    done = [run.name for run in param.runs if run.state == "done"]
    series: dict[str, list[Points]] = {}
    for run in done[:MOST_RUNS]:
        for path in list_series_files(store / run)[:MOST_SERIES]:
            series.setdefault(path.stem, []).append(thin_out(_read_points(path)))
    told = {name: tuple(of_runs) for name, of_runs in series.items()}
    return Combination(name=param.name, label=text, runs=len(done), series=told)


def thin_out(points: Points) -> Points:
    """At most `MOST_POINTS` of them, evenly, the first and the last among them."""
    if len(points) <= MOST_POINTS:
        return points
    last, places = len(points) - 1, MOST_POINTS - 1
    return tuple(points[place * last // places] for place in range(MOST_POINTS))


def _read_points(path: Path) -> Points:
    """A series that a job changed since is not drawn."""
    try:
        content = read_limited(path, within=path.parents[2]) or b""
        return tuple((index[:40], value[:40]) for index, value in read_series(content.decode().splitlines()))
    except (ValueError, csv.Error):
        return ()


def _submissions(store: Path) -> dict[str, tuple[str, ...]]:
    """The runs of each submission, by the name of its folder; one that a power cut left in part has none."""
    found: dict[str, tuple[str, ...]] = {}
    folder = store / SUBMISSIONS
    try:
        names = names_in(folder, within=store, folders=True)
    except OSError:
        return {}
    for name in sorted(filter(is_stamp, names)):
        try:
            found[name] = read_submitted_runs(folder / name).told.runs
        except StoreError:  # noqa: PERF203  (the others are read)
            found[name] = ()
    return found
