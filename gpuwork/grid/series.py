"""What `main` returns, as series: each has a name, and a value for each index."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.cells import write_cells
from gpuprov.shapes.grids import is_series_name
from gpuwork.untrusted_files import names_in

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ALLOWED: Final = "a list of pandas.Series with names, a dictionary of numbers or of lists of numbers, or None"
_END: Final = ".csv"
_MOST: Final = 100

ResultSeries = dict[str, list[tuple[str, str]]]


class WrongResult(TypeError):
    """`main` returned something that is no result."""


def as_series(returned: object) -> ResultSeries:
    """Turn what `main` returned into series; raises WrongResult where it is none.

    A pandas.Series is known by its `name` and `items`, so that pandas is not needed here.
    """
    if returned is None:
        return {}
    if isinstance(returned, dict):
        pairs = [(name, _rows(name, value)) for name, value in returned.items()]
    elif isinstance(returned, (list, tuple)):
        pairs = [(getattr(one, "name", None), _rows(getattr(one, "name", None), one)) for one in returned]
    else:
        raise WrongResult(f"main returned an object of type {type(returned).__name__}; allowed: {ALLOWED}")
    found: ResultSeries = {}
    for name, rows in pairs:
        if not isinstance(name, str) or not is_series_name(name):
            raise WrongResult(f"main returned a series with the name {name!r}; allowed: letters, digits, _ . = + -")
        if name in found:
            raise WrongResult(f"main returned two series with the name {name!r}")
        found[name] = rows
    return found


def write_series(series: ResultSeries, folder: Path) -> None:
    """Write each as `NAME.csv`."""
    for name, rows in series.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            write_cells([("index", name), *rows], file)


def _rows(name: object, value: object) -> list[tuple[str, str]]:
    if hasattr(value, "items") and hasattr(value, "name"):
        return [(_cell(index), _cell(item)) for index, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [(str(index), _number(name, item)) for index, item in enumerate(value)]
    return [("0", _number(name, value))]


def _number(name: object, value: object) -> str:
    plain = _plain(value)
    if not isinstance(plain, (bool, int, float)):
        raise WrongResult(f"main returned an object of type {type(value).__name__} for {name!r}; allowed: {ALLOWED}")
    return repr(plain)


def _cell(value: object) -> str:
    plain = _plain(value)
    return repr(plain) if isinstance(plain, float) else str(plain)


def _plain(value: object) -> object:
    """A number of numpy or a tensor with one element as Python's own."""
    return value.item() if hasattr(value, "item") else value


def read_series(lines: Iterable[str]) -> list[tuple[str, str]]:
    """The rows of such a file; raises ValueError where it is none."""
    rows = list(csv.reader(lines, strict=True))
    if not rows or any(len(row) != len(("index", "value")) for row in rows):
        raise ValueError("no series: two columns are expected")
    return [(index, value) for index, value in rows[1:]]


def list_series_files(run: Path) -> list[Path]:
    """The files that can be series of a run, in their order, 100 at most; none where its folder cannot be listed."""
    try:
        names = names_in(run, within=run.parents[1])
    except OSError:
        return []
    fitting = (name for name in names if name.endswith(_END) and is_series_name(name.removesuffix(_END)))
    return [run / name for name in sorted(fitting)[:_MOST]]
