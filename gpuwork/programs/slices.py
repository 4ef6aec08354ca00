"""How the rows of a table are divided among workers: by their rates, and none is lost."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from gpuprov.shapes.program_rounds import RowSlice

if TYPE_CHECKING:
    from collections.abc import Sequence


def plan_slices(rows: int, rates: Sequence[float], *, first: int = 0) -> list[RowSlice | None]:
    """The slice of each worker; None for one that is too slow to get a row. Together they are all rows, each once.

    Args:
        rows: Of the table.
        rates: How fast each worker is, in whatever unit.
        first: The number of the first slice.

    Raises:
        ValueError: There is no row, no worker, or one without a rate.
    """
    if rows < 1 or not rates or any(not rate > 0 for rate in rates):
        raise ValueError(f"{rows} rows cannot be divided by the rates {list(rates)}")
    whole = sum(map(Fraction, rates))
    bounds = [0]
    passed = Fraction(0)
    for rate in rates:
        passed += Fraction(rate)
        bounds.append(round(rows * passed / whole))
    planned: list[RowSlice | None] = []
    number = first
    for start, stop in pairwise(bounds):
        if start == stop:
            planned.append(None)
            continue
        planned.append(RowSlice(number=number, start=start, stop=stop))
        number += 1
    return planned
