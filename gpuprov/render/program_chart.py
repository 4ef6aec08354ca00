"""The chart of a program's result as an SVG file: groups of points, and those that are marked as crosses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.render.figures import COLOURS, INK, draw, put_legend, set_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuprov.shapes.program_runs import Chart

_WIDTH, _HEIGHT = 8.0, 5.5  # inches
_MARKS: Final = {"color": INK, "marker": "x", "s": 60, "linewidths": 2, "zorder": 3}


def render_chart(chart: Chart, *, simulated: bool) -> str:
    """The file."""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        set_title(axes, chart.title, simulated=simulated)
        for number, group in enumerate(chart.groups):
            plain = {"color": COLOURS[number % len(COLOURS)], "s": 14, "alpha": 0.7, "linewidths": 0}
            across, up = zip(*group.points, strict=True) if group.points else ((), ())
            axes.scatter(across, up, label=group.label, **(_MARKS if group.marked else plain))
        put_legend(axes)

    return draw(paint, width=_WIDTH, height=_HEIGHT)
