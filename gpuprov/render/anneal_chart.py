"""The best values of chains over their steps as one SVG, with an axis for each run: models have their own scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.render.figures import COLOURS, draw, label_axes, put_legend, set_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from gpuprov.shapes.anneal import Run

_WIDTH, _HEIGHT = 9.0, 3.2  # inches, of each run


def render_anneal_chart(runs: Sequence[Run]) -> str:
    """A chart for each run, with a line for each chain."""

    def paint(figure: Figure) -> None:
        for axes, run in zip(figure.subplots(max(1, len(runs)), squeeze=False)[:, 0], runs, strict=False):
            lines = {chain.chain: chain.points for chain in run.series or () if chain.points}
            named = len(lines) <= len(COLOURS)
            set_title(
                axes, f"{run.name}: best value of {len(lines)} chain{'s' * (len(lines) != 1)}", simulated=run.simulated
            )
            label_axes(axes, "step", "best value")
            for number, points in lines.items():
                colour, label = COLOURS[number % len(COLOURS)], f"chain {number}" if named else None
                axes.plot(*zip(*points, strict=True), color=colour, label=label, linewidth=0.9, marker=_mark(points))
            if len(lines) > 1:
                put_legend(axes)
            if not lines:
                axes.set(xticks=(), yticks=())
                axes.text(0.5, 0.5, "no chain has a value", transform=axes.transAxes, ha="center")

    return draw(paint, width=_WIDTH, height=_HEIGHT * max(1, len(runs)))


def _mark(points: Sequence[tuple[float, float]]) -> str:
    return "." if len(points) == 1 else ""
