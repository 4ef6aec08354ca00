"""The results of a grid as one HTML page: series side by side; no script, and nothing loaded from anywhere."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.assets import get_asset
from gpuprov.render.axes import LEFT, RIGHT, Tick, axes_around
from gpuprov.render.templates import render

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from gpuprov.planes.work.grid_answers import DrawnCombination, GridSeries, GridTable, SeriesPoints

SIMULATED: Final = "SIMULATED"
WIDTH, HEIGHT = 320, 150
MOST_ROWS: Final = 1000
LAYOUT: Final = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT}


@dataclass(frozen=True, kw_only=True)
class SmallChart:
    """A series of one combination; each line is as SVG's polyline wants it."""

    label: str
    runs: int
    simulated: bool
    lines: tuple[str, ...]
    columns: tuple[Tick, ...]
    rows: tuple[Tick, ...]


def render_page(project: str, table: GridTable, series: GridSeries, *, made_at: datetime) -> str:
    """The page."""
    names = dict.fromkeys(name for one in series.combinations for name in one.series)
    drawn = [(name, chart_series(name, series.combinations, _simulated(table))) for name in names]
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


def _simulated(table: GridTable) -> frozenset[str]:
    return frozenset(run["param_name"] for run in table.runs if run["run.simulated"] == "True")
