"""One chart for each series of a grid, coloured by a parameter, and a heat map of two parameters."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from gpuprov.render.figures import COLOURS, draw, label_axes, put_in_page, put_legend, set_title
from gpuprov.render.grid_order import as_number, short_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 9.0, 3.6  # inches
_SHADES: Final = (0.32, 0.9)  # of a colour map: its ends cannot be seen on black or on white
_MOST_CELLS: Final = 20  # of a heat map, along a side
_MOST_NAMED, _SOME = 12, 8  # groups in a legend
_CELL: Final = 0.42  # inches
_ROUNDING: Final = 1e-12
_FAR: Final = 50.0  # from here on, the largest number is so much more than the smallest that the axis is logarithmic

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class DrawnRun:
    """A series of one run.

    Attributes:
        values: Of the parameters that differ between runs, as text.
        points: Index and value; one at least.
    """

    values: Mapping[str, str]
    points: Points
    simulated: bool = False

    @property
    def last(self) -> float:
        """The value at its end."""
        return self.points[-1][1]


def chart_of(name: str, runs: Sequence[DrawnRun], parameters: Sequence[str]) -> str:
    """A series of all runs, as an element of a page: over its index, or one value of each run over a parameter."""
    chosen = by_influence(runs, parameters)
    single = bool(chosen) and all(len(run.points) == 1 for run in runs)
    across, colour = (chosen[0], chosen[1:2]) if single else ("index", chosen[:1])
    title = f"{name} of {len(runs)} run{'s' * (len(runs) != 1)}" + (f", coloured by {colour[0]}" if colour else "")

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        set_title(axes, title, simulated=any(run.simulated for run in runs))
        label_axes(axes, across, name)
        groups = group_by(runs, colour[0] if colour else None)
        places, named = _places(axes, across, runs) if single else {}, _named([*groups] if colour else [])
        for (text, group), shade in zip(groups.items(), _shades(groups), strict=True):
            style = {"color": shade, "label": short_number(text) if text in named else None}
            if single:
                at = [places[run.values[across]] for run in group]
                axes.plot(at, [run.last for run in group], "o", markersize=5, alpha=0.85, **style)
            else:
                _lines(axes, group, style)
        if colour:
            put_legend(axes, colour[0])

    return put_in_page(draw(paint, width=_WIDTH, height=_HEIGHT), title)


def heat_map_of(name: str, runs: Sequence[DrawnRun], parameters: Sequence[str]) -> str | None:
    """The last value for each pair of values of the two parameters that matter most; None where most pairs lack."""
    chosen = by_influence(runs, parameters)[:2]
    if len(chosen) < 2:  # noqa: PLR2004  (a map has two sides)
        return None
    across, up = sorted(chosen, key=parameters.index)
    cells: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        cells[run.values[across], run.values[up]].append(run.last)
    columns, rows = (in_order(run.values[side] for run in runs) for side in (across, up))
    if max(len(columns), len(rows)) > _MOST_CELLS or 2 * len(cells) < len(columns) * len(rows):
        return None
    means = [[fmean(cells[x, y]) if (x, y) in cells else math.nan for x in columns] for y in rows]
    mean = "mean of " if any(len(values) > 1 for values in cells.values()) else ""
    title = f"{name}: {mean}last values by {across} and {up}"

    lowest, *_, highest = sorted(map(fmean, cells.values()))
    bright = lowest + 0.6 * (highest - lowest)  # from here on, cells are light

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        set_title(axes, title, simulated=any(run.simulated for run in runs))
        label_axes(axes, across, up)
        axes.grid(visible=False)
        axes.pcolormesh(means, cmap="viridis", edgecolors="face")
        axes.set_xticks([place + 0.5 for place in range(len(columns))], columns, rotation=30 * _are_long(columns))
        axes.set_yticks([place + 0.5 for place in range(len(rows))], rows)
        for (x, y), values in cells.items():
            place = (columns.index(x) + 0.5, rows.index(y) + 0.5)
            is_dark = fmean(values) < bright
            axes.text(*place, f"{fmean(values):.4g}", ha="center", va="center", color="#fff" if is_dark else "#010203")

    height = max(_HEIGHT, 1.2 + _CELL * len(rows))
    return put_in_page(draw(paint, width=_WIDTH, height=height), title)


def by_influence(runs: Sequence[DrawnRun], parameters: Sequence[str]) -> list[str]:
    """The parameters that differ between these runs, first the one that explains most of how last values differ."""
    differing = [name for name in parameters if len({run.values[name] for run in runs}) > 1]
    return sorted(differing, key=lambda name: -_influence(runs, name))


def _influence(runs: Sequence[DrawnRun], name: str) -> float:
    """The share of the variance that lies between groups, less what as many groups have by chance."""
    groups, mean = group_by(runs, name), fmean(run.last for run in runs)
    scale = max(abs(run.last - mean) for run in runs)  # so that no square is too large
    spare = len(runs) - len(groups)
    if not spare or scale <= _ROUNDING * abs(mean):
        return 0.0
    total = sum(((run.last - mean) / scale) ** 2 for run in runs)
    within = 0.0
    for group in groups.values():
        middle = fmean(run.last for run in group)
        within += sum(((run.last - middle) / scale) ** 2 for run in group)
    return 1 - within / total * (len(runs) - 1) / spare


def group_by(runs: Sequence[DrawnRun], name: str | None) -> dict[str, list[DrawnRun]]:
    """Runs by their value of a parameter, in the order of the values; all together where there is none."""
    if name is None:
        return {"": list(runs)}
    found: dict[str, list[DrawnRun]] = {text: [] for text in in_order(run.values[name] for run in runs)}
    for run in runs:
        found[run.values[name]].append(run)
    return found


def in_order(texts: Iterable[str]) -> list[str]:
    """Distinct texts, numbers by their size and before words."""

    def key(text: str) -> tuple[bool, float, str]:
        number = as_number(text)
        return number is None, number or 0.0, text

    return sorted(set(texts), key=key)


def _named(texts: Sequence[str]) -> set[str]:
    """The groups that a legend names: all, or some of many, the first and the last among them."""
    if len(texts) <= _MOST_NAMED:
        return {*texts}
    return {texts[place * (len(texts) - 1) // (_SOME - 1)] for place in range(_SOME)}


def _shades(groups: Mapping[str, object]) -> list[Any]:
    """A colour for each group: of a scale where their values are numbers."""
    if len(groups) > len(COLOURS) or (len(groups) > 4 and all(as_number(text) is not None for text in groups)):  # noqa: PLR2004
        from matplotlib import colormaps

        first, last = _SHADES
        return [colormaps["viridis"](first + (last - first) * n / (len(groups) - 1)) for n in range(len(groups))]
    return list(COLOURS[: len(groups)])


def _lines(axes: Axes, group: Sequence[DrawnRun], style: dict[str, Any]) -> None:
    """A line for each run; the first one is named."""
    for run in group:
        mark = "o" if len(run.points) == 1 else ""
        axes.plot(*zip(*run.points, strict=True), linewidth=1.2, alpha=0.8, marker=mark, **style)
        style = {**style, "label": None}


def _places(axes: Axes, name: str, runs: Sequence[DrawnRun]) -> dict[str, float]:
    """Where the values of a parameter are along the axis: numbers by their size, anything else side by side."""
    texts = in_order(run.values[name] for run in runs)
    numbers = [as_number(text) for text in texts]
    known = [number for number in numbers if number is not None]
    if len(known) == len(texts):
        if known[0] > 0 and known[-1] / known[0] >= _FAR:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda value, _place: f"{value:g}")
            axes.xaxis.set_minor_formatter(lambda _value, _place: "")
        return dict(zip(texts, known, strict=True))
    axes.set_xticks(range(len(texts)), texts, rotation=30 * _are_long(texts))
    return {text: float(place) for place, text in enumerate(texts)}


def _are_long(texts: Sequence[str]) -> bool:
    return sum(map(len, texts)) > 90  # noqa: PLR2004  (characters below a chart)
