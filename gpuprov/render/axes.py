"""Where the axes of the charts of `verify` lie: numbers for a template, no drawing."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
