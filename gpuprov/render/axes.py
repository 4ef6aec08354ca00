"""Where the axes of a chart lie: numbers for a template, no drawing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LEFT, RIGHT, TOP, BOTTOM = 56, 16, 10, 22  # pixels around what is drawn
_TICKS = 4
_LEAST = 1e-290  # a range that cannot be divided any more


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A line of the grid: pixels from the left or the top, and its number."""

    at: float
    label: str


def ticks(highest: float, lowest: float = 0.0) -> list[float]:
    """Round numbers from one that is not above `lowest` to one that is not below `highest`."""
    if highest - lowest < _LEAST:
        return [lowest, lowest + max(1.0, abs(lowest))]
    share = (highest - lowest) / _TICKS
    power = 10.0 ** math.floor(math.log10(share))
    step = next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= share)
    first = math.floor(lowest / step + 1e-9)
    return [number * step for number in range(first, math.ceil(highest / step - 1e-9) + 1)]


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Both axes of a chart: the round numbers on each, and where a value lies in pixels.

    Attributes:
        across: Numbers from left to right.
        up: Numbers from bottom to top.
        width: Of the whole chart, in pixels.
        height: Of the whole chart, in pixels.
    """

    across: tuple[float, ...]
    up: tuple[float, ...]
    width: int
    height: int

    def x(self, value: float) -> float:
        """Pixels from the left."""
        share = (value - self.across[0]) / (self.across[-1] - self.across[0])
        return round(LEFT + (self.width - LEFT - RIGHT) * share, 1)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        share = (value - self.up[0]) / (self.up[-1] - self.up[0])
        return round(self.height - BOTTOM - (self.height - TOP - BOTTOM) * share, 1)

    @property
    def columns(self) -> tuple[Tick, ...]:
        """The lines from top to bottom."""
        return tuple(Tick(at=self.x(number), label=f"{number:g}") for number in self.across)

    @property
    def rows(self) -> tuple[Tick, ...]:
        """The lines from left to right."""
        return tuple(Tick(at=self.y(number), label=f"{number:g}") for number in self.up)


def axes_around(points: Iterable[tuple[float, float]], *, width: int, height: int) -> Axes:
    """Axes that hold all points, of which there is one at least."""
    across, up = zip(*points, strict=True)
    return Axes(
        across=tuple(ticks(max(across), min(across))), up=tuple(ticks(max(up), min(up))), width=width, height=height
    )
