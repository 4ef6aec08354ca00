"""The results of a grid as one HTML page: the table, then a chart for each series; no script, nothing loaded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from gpuprov.assets import get_asset
from gpuprov.render.figures import SIMULATED
from gpuprov.render.grid_charts import DrawnRun, chart_of, heat_map_of
from gpuprov.render.grid_order import (
    LAST,
    as_number,
    order_rows,
    parameters_of,
    short_number,
    values_by_combination,
    varied_parameters,
)
from gpuprov.render.templates import render
from gpuprov.shapes.grids import HEAD

if TYPE_CHECKING:
    from datetime import datetime

    from gpuprov.render.grid_charts import Points
    from gpuprov.render.grid_order import Goal
    from gpuprov.shapes.grids import GridListed, GridSeries

MOST_ROWS: Final = 1000
FEW_ROWS: Final = 15  # that are shown before charts; a click opens the others


def render_page(
    project: str, table: GridListed, series: GridSeries, goal: Goal | None, *, made_at: datetime, no_charts: str = ""
) -> str:
    """The page.

    Args:
        project: The name of the project.
        table: All runs.
        series: Their series.
        goal: What the best run, which comes first, is the best in.
        made_at: Now.
        no_charts: Why there are none; empty where they are drawn.
    """
    rows = table.rows if goal is None else order_rows(table, goal)
    columns = ordered_columns(table)
    places = [table.columns.index(column) for column in columns]
    return render(
        get_asset("templates"),
        "report/grid.html.j2",
        project=project,
        made_at=made_at.strftime("%Y-%m-%d %H:%M:%S %Z"),
        simulated=SIMULATED,
        table=table,
        goal=goal,
        states=Counter(run["run.state"] for run in table.runs),
        columns=columns,
        rows=[[short_number(row[place]) for place in places] for row in rows[:MOST_ROWS]],
        few=FEW_ROWS,
        charts=[] if no_charts else draw_charts(table, series),
        no_charts=no_charts,
        left_out=series.left_out,
    )


def draw_charts(table: GridListed, series: GridSeries) -> list[tuple[str, list[str]]]:
    """The name of each series of numbers, and its charts."""
    parameters, drawn = varied_parameters(table), runs_by_series(table, series)
    charts = {name: (chart_of(name, runs, parameters), heat_map_of(name, runs, parameters)) for name, runs in drawn}
    return [(name, [chart for chart in both if chart]) for name, both in charts.items()]


def runs_by_series(table: GridListed, series: GridSeries) -> list[tuple[str, list[DrawnRun]]]:
    """The runs of each series that have a number in it."""
    cells = values_by_combination(table)
    simulated = {run[HEAD[0]] for run in table.runs if run["run.simulated"] == "True"}
    found: dict[str, list[DrawnRun]] = {name: [] for one in series.combinations for name in one.series}
    for one in series.combinations:
        values = {name: cells.get(one.name, {}).get(name, "") for name in parameters_of(table)}
        for name, runs in one.series.items():
            points = filter(None, map(_read_points, runs))
            found[name] += [DrawnRun(values=values, points=each, simulated=one.name in simulated) for each in points]
    return [(name, runs) for name, runs in found.items() if runs]


def ordered_columns(table: GridListed) -> list[str]:
    """What tells runs apart comes first, then what they gave, how they ended, and what all have in common."""
    varied = varied_parameters(table)
    told = (HEAD[0], *varied, *(name for name in table.columns if name.startswith(LAST)))
    fixed = [name for name in parameters_of(table) if name not in varied]
    about = [name for name in table.columns if name not in {*told, *fixed}]
    return [*told, *about, *fixed]


def _read_points(told: tuple[tuple[str, str], ...]) -> Points:
    """The points that are numbers; where an index is none, its place counts."""
    points = []
    for place, pair in enumerate(told):
        index, value = map(as_number, pair)
        if value is not None:
            points.append((float(place) if index is None else index, value))
    return tuple(sorted(points))
