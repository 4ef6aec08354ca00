"""The chart of a program's result as an SVG file: groups of points, and those that are marked as crosses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.assets import get_asset
from gpuprov.render.axes import LEFT, RIGHT, Tick, axes_around
from gpuprov.render.templates import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.shapes.program_runs import Chart, ChartGroup

WIDTH, HEIGHT = 640, 480
SIMULATED: Final = "SIMULATED"
_LAYOUT: Final = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT}
# Told apart in print too: by lightness
_COLOURS: Final = ("#1b6ca8", "#d95f02", "#3a9a3a", "#8e44ad", "#b8860b", "#c2185b", "#0097a7", "#6d4c41")


@dataclass(frozen=True, kw_only=True)
class DrawnGroup:
    """Points in pixels."""

    label: str
    colour: str
    marked: bool
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """Groups of points with their axes."""

    groups: tuple[DrawnGroup, ...]
    columns: tuple[Tick, ...]
    rows: tuple[Tick, ...]


def render_chart(chart: Chart, *, simulated: bool) -> str:
    """The file."""
    return render(
        get_asset("templates"),
        "report/scatter.svg.j2",
        title=f"{chart.title} {SIMULATED}" if simulated else chart.title,
        chart=place_groups(chart.groups),
        layout=_LAYOUT,
    )


def place_groups(groups: Sequence[ChartGroup]) -> Scatter:
    """Where the points lie in pixels, and the lines of their axes."""
    points = [point for group in groups for point in group.points] or [(0.0, 0.0)]
    axes = axes_around(points, width=WIDTH, height=HEIGHT)
    return Scatter(
        groups=tuple(
            DrawnGroup(
                label=group.label,
                colour="#111" if group.marked else _COLOURS[number % len(_COLOURS)],
                marked=group.marked,
                points=tuple((axes.x(x), axes.y(y)) for x, y in group.points),
            )
            for number, group in enumerate(groups)
        ),
        columns=axes.columns,
        rows=axes.rows,
    )
