"""What the program `gpuwork.grid` in a node answers, read strictly: root in the node can say anything in its place."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.answer_kinds import fields_of, is_list, items_of, matches, number_in, or_none, pick, text_of
from gpuprov.planes.work.work_place import GRIDS
from gpuprov.shapes.jobs import is_job_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.answer_kinds import Accepts

GRID_SUBMITTED: Final = "gpuprov.grid-submitted/v1"
CHECKED: Final = "gpuprov.grid-checked/v1"
LISTED: Final = "gpuprov.grid-listed/v1"
SERIES: Final = "gpuprov.grid-series/v1"
STATES: Final = ("done", "failed", "open")
_PARAM: Final = r"param_[0-9]{3,6}"
_JOB: Final = r"[0-9]{4}(?:-[0-9]{2}){5}_num[1-9][0-9]{0,5}"
_MANY: Final = 10**7
_CELL: Final = 5000
_STAMP: Final = r"[0-9]{4}(?:-[0-9]{2}){5}(?:_[1-9][0-9]{0,5})?"
SUBMISSION: Final = re.compile(rf"{GRIDS}/([^/\x00-\x1f\x7f]+)/runs/\.submissions/({_STAMP})", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ .=+-]{0,99}", re.ASCII)

SeriesPoints = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class GridSubmitted:
    """What was submitted, and what was not missing.

    Attributes:
        project: The grid's name.
        id: Of the jobs; None if no run was missing.
        runs: Names of the runs, such as `param_001/2026-11-22-16-40-12_num1`; run N is job `ID.N`.
        done: How many runs are done already.
        under_way: How many wait or run.
        other_code: How many of the done ones ran other code.
    """

    project: str
    id: str | None
    runs: tuple[str, ...]
    done: int
    under_way: int
    other_code: int


@dataclass(frozen=True, kw_only=True)
class GridTable:
    """All runs of a grid.

    Attributes:
        columns: What the cells of a row are.
        rows: A row for each run.
        combinations: The hash of the values of each combination, by its name, such as `param_001`.
        submissions: The names of the runs of each submission, by the name of its folder.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    combinations: Mapping[str, str]
    submissions: Mapping[str, tuple[str, ...]]

    @property
    def runs(self) -> tuple[Mapping[str, str], ...]:
        """The rows, each with its cells by column."""
        return tuple(dict(zip(self.columns, row, strict=True)) for row in self.rows)

    @property
    def simulated(self) -> bool:
        """Whether any run had simulated GPUs."""
        return any(run["run.simulated"] == "True" for run in self.runs)


@dataclass(frozen=True, kw_only=True)
class DrawnCombination:
    """The series of a combination.

    Attributes:
        label: The values that tell it from the others, such as `lr=0.1 units=64`.
        runs: How many of its runs are done.
        series: By the name of the series, the points of each run that are numbers.
    """

    name: str
    label: str
    runs: int
    series: Mapping[str, tuple[SeriesPoints, ...]]


@dataclass(frozen=True, kw_only=True)
class GridSeries:
    """The series of a grid, and how many combinations are left out."""

    combinations: tuple[DrawnCombination, ...]
    left_out: int


def run_name(run: Mapping[str, str]) -> str:
    """The name of the run that a row is about."""
    return f"{run['param_name']}/{run['job_name']}"


def read_grid_submitted(told: Mapping[str, Any], project: str) -> GridSubmitted:
    """What was submitted of a project; raises ValueError for anything else."""
    count = number_in(0, _MANY)
    _, number, runs, done, under_way, other_code = fields_of(
        told,
        GRID_SUBMITTED,
        {"project": lambda value: value == project, "id": or_none(_is_id), "runs": items_of(_RUN), "done": count,
         "under_way": count, "other_code": count},
    )  # fmt: skip
    if (number is None) != (not runs):
        raise ValueError("it has an id without runs, or runs without an id")
    return GridSubmitted(
        project=project, id=number, runs=tuple(runs), done=done, under_way=under_way, other_code=other_code
    )


def read_combinations(told: Mapping[str, Any]) -> tuple[str, ...]:
    """The hash of the values of each combination; raises ValueError for anything else, faults included."""
    hashes = items_of(matches(re.compile(r"[0-9a-f]{64}")))
    _, combinations, faults = fields_of(
        told, CHECKED, {"files": is_list, "combinations": or_none(hashes), "faults": is_list}
    )
    if faults or combinations is None:
        raise ValueError(f"the project has faults there: {faults or 'a package of its params.py is missing'}")
    return tuple(combinations)


def read_table(told: Mapping[str, Any]) -> GridTable:
    """All runs; raises ValueError for anything else."""
    columns, rows, combinations, submissions = fields_of(
        told,
        LISTED,
        {"columns": items_of(text_of(200)), "rows": items_of(items_of(text_of(_CELL))),
         "combinations": _mapping(_PARAM, matches(re.compile(r"[0-9a-f]{64}"))),
         "submissions": _mapping(_STAMP, items_of(_RUN))},
    )  # fmt: skip
    table = GridTable(
        columns=tuple(columns), rows=tuple(map(tuple, rows)), combinations=combinations,
        submissions={name: tuple(runs) for name, runs in submissions.items()},
    )  # fmt: skip
    if columns[:2] != ["param_name", "job_name"] or len(set(columns)) < len(columns) or not _ABOUT.issubset(columns):
        raise ValueError("its columns are not those of a grid")
    if any(len(row) != len(columns) for row in rows):
        raise ValueError("a row has more or fewer cells than there are columns")
    for run in table.runs:
        if not _RUN(run_name(run)) or run["run.state"] not in STATES or run["param_name"] not in combinations:
            raise ValueError(f"a row belongs to no run: {run_name(run)[:100]!r}")
    if len({*map(run_name, table.runs)}) < len(rows):
        raise ValueError("a run occurs twice")
    return table


def read_drawn_series(told: Mapping[str, Any]) -> GridSeries:
    """Series; raises ValueError for anything else."""
    combinations, left_out = fields_of(told, SERIES, {"combinations": is_list, "left_out": number_in(0, _MANY)})
    return GridSeries(combinations=tuple(map(_read_combination, combinations)), left_out=left_out)


def _read_combination(told: object) -> DrawnCombination:
    point = items_of(text_of(100))
    name, label, runs, series = pick(
        told,
        {"name": matches(re.compile(_PARAM)), "label": text_of(500), "runs": number_in(0, _MANY),
         "series": _mapping(_NAME.pattern, items_of(items_of(point)))},
    )  # fmt: skip
    return DrawnCombination(
        name=name, label=label, runs=runs,
        series={name: tuple(map(_read_points, of_runs)) for name, of_runs in series.items()},
    )  # fmt: skip


def _read_points(told: Sequence[Sequence[str]]) -> SeriesPoints:
    """The points that are numbers; where an index is none, its place counts."""
    points = []
    for place, pair in enumerate(told):
        if len(pair) != len(("index", "value")):
            raise ValueError("a point is not an index and a value")
        index, value = map(_number, pair)
        if value is not None:
            points.append((float(place) if index is None else index, value))
    return tuple(sorted(points))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and abs(number) < 1e300 else None  # noqa: PLR2004 - a chart adds them up


def _mapping(key: str, kind: Accepts) -> Accepts:
    compiled = re.compile(key, re.ASCII)

    def accepts(value: object) -> bool:
        return isinstance(value, dict) and all(compiled.fullmatch(name) and kind(item) for name, item in value.items())

    return accepts


_RUN: Final = matches(re.compile(rf"{_PARAM}/{_JOB}", re.ASCII))
_ABOUT: Final = frozenset(
    f"run.{name}" for name in ("state", "exit_status", "reason", "node", "gpus", "simulated", "started", "seconds")
)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and is_job_id(value) and "." not in value
