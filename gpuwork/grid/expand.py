"""From what is asked for to the values of each run. Pure: the same file gives the same runs everywhere."""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING

from gpuwork.grid.values import hash_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuwork.grid.draft import Draw, Grid, Sampling
    from gpuwork.grid.values import ParameterValue

RunValues = dict[str, "ParameterValue"]


def expand_grid(grid: Grid, *, minimal: bool = False, first_only: bool = False) -> list[RunValues]:
    """The values of each run, in the order in which they are written: the last name changes first.

    Args:
        minimal: One run, of the defaults and what is for debugging. A name without default has its first value.
        first_only: Only the first combination.
    """
    drawn = draw(grid.random) if grid.random else [{}]
    names = tuple(grid.requests)
    combinations: Iterator[RunValues] = (
        {**grid.defaults, **dict(zip(names, values, strict=True)), **sample}
        for values, sample in itertools.product(itertools.product(*grid.requests.values()), drawn)
    )
    if minimal:
        return [{**next(combinations), **grid.defaults, **grid.debug}]
    if first_only:
        return [next(combinations)]
    return list({hash_values(values): values for values in combinations}.values())  # values may be drawn twice


def draw(sampling: Sampling) -> list[RunValues]:
    """What a seed draws; another name beside it, or more samples, leave the values of a name as they are."""
    columns = {}
    for name, kind in sampling.draws.items():
        source = random.Random(f"{sampling.seed} {name}")  # noqa: S311  (it must be the same every time)
        columns[name] = [_value(kind, source.random()) for _ in range(sampling.samples)]
    return [{name: column[number] for name, column in columns.items()} for number in range(sampling.samples)]


def _value(draw: Draw, share: float) -> ParameterValue:
    """The value at a share, from 0 to below 1, of the range.

    By `random()` alone, which gives the same on every version of Python; the mathematics of two machines may differ in
    the last digits.
    """
    if draw.kind == "choice":
        return draw.options[_index(share, len(draw.options))]
    if draw.kind == "randint":
        return int(draw.low) + _index(share, int(draw.high) - int(draw.low) + 1)
    if draw.kind == "uniform":
        return float(f"{draw.low + share * (draw.high - draw.low):.12g}")
    low, high = math.log(draw.low), math.log(draw.high)
    return float(f"{math.exp(low + share * (high - low)):.12g}")


def _index(share: float, count: int) -> int:
    return min(math.floor(share * count), count - 1)  # the product may be rounded up to the count
