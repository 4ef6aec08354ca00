"""Which runs of a grid are the best, and what tells them apart. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.shapes.grids import HEAD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.grids import Cell, GridListed

LAST: Final = "last."
_ABOUT: Final = "run."
_SHORT: Final = 9  # characters of a number that need not be rounded
_DRAWN: Final = 1e300  # a chart adds numbers up
# The ends of words in the names of series that are to be low
_LOW: Final = (
    *("loss", "err", "error", "errors", "mse", "mae", "rmse", "nll", "perplexity", "ppl", "wer", "cer", "cost"),
    *("energy", "distance", "regret", "time", "seconds", "latency"),
)


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What the best run is the best in."""

    series: str
    lowest: bool

    def __str__(self) -> str:
        """In words."""
        return f"{'lowest' if self.lowest else 'highest'} {self.series}"


def choose_goal(table: GridListed, *, lowest: str | None, highest: str | None) -> Goal | None:
    """What was asked for, or else the first series, of which its name says whether low is good; None without series.

    Raises:
        UsageError: No run has such a series, or both are asked for.
    """
    names = [column.removeprefix(LAST) for column in table.columns if column.startswith(LAST)]
    if lowest is not None and highest is not None:
        raise UsageError(
            "--lowest and --highest exclude each other",
            evidence=f"--lowest {excerpt(lowest)} --highest {excerpt(highest)}",
            fix="omit one of them",
        )
    asked = lowest if lowest is not None else highest
    if asked is None:
        return Goal(series=names[0], lowest=is_low_good(names[0])) if names else None
    if asked not in names:
        option = "--highest" if lowest is None else "--lowest"
        raise UsageError(
            f"no run has a series {excerpt(asked)!r}",
            evidence=f"series: {', '.join(names) or 'none'}",
            fix=f"{option} {names[0]}" if names else f"omit {option}",
        )
    return Goal(series=asked, lowest=lowest is not None)


def is_low_good(series: str) -> bool:
    """Whether less is better, by the name of a series, such as `val_loss`."""
    return any(word.endswith(_LOW) for word in re.findall("[a-z]+", series.lower()))


def order_rows(table: GridListed, goal: Goal) -> tuple[tuple[Cell, ...], ...]:
    """The rows, the best first; those without a number stay in their order, at the end."""
    place = table.columns.index(f"{LAST}{goal.series}")

    def key(row: tuple[Cell, ...]) -> tuple[bool, float]:
        value = as_number(row[place])
        return value is None, 0.0 if value is None else value if goal.lowest else -value

    return tuple(sorted(table.rows, key=key))


def parameters_of(table: GridListed) -> tuple[str, ...]:
    """The names of all parameters."""
    return tuple(name for name in table.columns if name not in HEAD and not name.startswith((LAST, _ABOUT)))


def varied_parameters(table: GridListed) -> tuple[str, ...]:
    """The names of parameters whose values differ between runs."""
    runs = table.runs
    return tuple(name for name in parameters_of(table) if len({run[name] for run in runs}) > 1)


def values_by_combination(table: GridListed) -> Mapping[str, Mapping[str, str]]:
    """The cells of a run of each combination, by its name."""
    return {run[HEAD[0]]: run for run in reversed(table.runs)}


def as_number(text: str) -> float | None:
    """A number that can be drawn and compared, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and abs(number) < _DRAWN else None


def short_number(text: str) -> str:
    """A number with a fraction as people read it; anything else as it is."""
    number = as_number(text)
    return text if number is None or len(text) < _SHORT else f"{number:.6g}"
