"""The results of a grid as one HTML page: series side by side; no script, and nothing loaded from anywhere."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.assets import get_asset
from gpuprov.render.axes import LEFT, RIGHT, Tick, axes_around
from gpuprov.render.templates import render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from gpuprov.shapes.grids import Combination, GridListed, GridSeries

SIMULATED: Final = "SIMULATED"
WIDTH, HEIGHT = 320, 150
MOST_ROWS: Final = 1000
LAYOUT: Final = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT}


SeriesPoints = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class DrawnCombination:
    """Series side by side with those of others.

    Attributes:
        label: What tells it from the others, such as `lr=0.1 units=64`.
        runs: How many of its runs are done.
        series: By the name of the series, the points of each run that are numbers.
    """

    name: str
    label: str
    runs: int
    series: Mapping[str, tuple[SeriesPoints, ...]]


@dataclass(frozen=True, kw_only=True)
class SmallChart:
    """A series of one combination; each line is as SVG's polyline wants it."""

    label: str
    runs: int
    simulated: bool
    lines: tuple[str, ...]
    columns: tuple[Tick, ...]
    rows: tuple[Tick, ...]


def render_page(project: str, table: GridListed, series: GridSeries, *, made_at: datetime) -> str:
    """The page."""
    names = dict.fromkeys(name for one in series.combinations for name in one.series)
    combinations = [*map(_with_numbers, series.combinations)]
    drawn = [(name, chart_series(name, combinations, _simulated(table))) for name in names]
    return render(
        get_asset("templates"),
        "report/grid.html.j2",
        project=project,
        made_at=made_at.strftime("%Y-%m-%d %H:%M:%S %Z"),
        simulated=SIMULATED,
        table=table,
        states=Counter(run["run.state"] for run in table.runs),
        rows=table.rows[:MOST_ROWS],
        series=[(name, charts) for name, charts in drawn if charts],
        left_out=series.left_out,
        layout=LAYOUT,
    )


def chart_series(
    name: str, combinations: Sequence[DrawnCombination], simulated: frozenset[str]
) -> tuple[SmallChart, ...]:
    """A chart for each combination that has the series, all with the same axes."""
    lines = {one.name: [points for points in one.series.get(name, ()) if points] for one in combinations}
    points = [point for of_runs in lines.values() for run in of_runs for point in run]
    if not points:
        return ()
    axes = axes_around(points, width=WIDTH, height=HEIGHT)

    def line(run: SeriesPoints) -> str:
        ends = run if len(run) > 1 else [(at, run[0][1]) for at in (axes.across[0], axes.across[-1])]  # as a level
        return " ".join(f"{axes.x(at)},{axes.y(value)}" for at, value in ends)

    return tuple(
        SmallChart(
            label=one.label or one.name,
            runs=one.runs,
            simulated=one.name in simulated,
            lines=tuple(map(line, lines[one.name])),
            columns=axes.columns,
            rows=axes.rows,
        )
        for one in combinations
        if lines[one.name]
    )


def _simulated(table: GridListed) -> frozenset[str]:
    return frozenset(run["param_name"] for run in table.runs if run["run.simulated"] == "True")


def _with_numbers(told: Combination) -> DrawnCombination:
    series = {name: tuple(map(_read_points, of_runs)) for name, of_runs in told.series.items()}
    return DrawnCombination(name=told.name, label=told.label, runs=told.runs, series=series)


def _read_points(told: tuple[tuple[str, str], ...]) -> SeriesPoints:
    """The points that are numbers; where an index is none, its place counts."""
    points = []
    for place, pair in enumerate(told):
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
