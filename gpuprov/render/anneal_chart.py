"""The best values of chains over their steps as one SVG: drawn as the series of a grid are. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.assets import get_asset
from gpuprov.render.grid_page import HEIGHT, LAYOUT, SIMULATED, WIDTH, DrawnCombination, chart_series
from gpuprov.render.templates import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.shapes.anneal import Run

SERIES: Final = "best value"
_SCALE: Final = 2
_TITLE: Final = 24  # pixels above each chart


def render_anneal_chart(runs: Sequence[Run]) -> str:
    """A chart for each run, with a line for each chain, all with the same axes."""
    drawn = [
        DrawnCombination(name=run.name, label=run.name, runs=len(chains), series={SERIES: chains})
        for run, chains in ((run, tuple(one.points for one in run.series or ())) for run in runs)
        if chains
    ]
    simulated = frozenset(run.name for run in runs if run.simulated)
    charts = chart_series(SERIES, drawn, simulated)
    return render(
        get_asset("templates"),
        "report/anneal.svg.j2",
        charts=charts,
        series=SERIES,
        simulated=SIMULATED,
        layout=LAYOUT,
        title=_TITLE,
        apart=HEIGHT + _TITLE,
        width=WIDTH,
        height=max(1, len(charts)) * (HEIGHT + _TITLE),
        scale=_SCALE,
    )
