"""CSV of ours: no cell is a formula for the spreadsheet that opens it. Numbers stay numbers."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FORMULA: Final = ("=", "+", "-", "@", "\t")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|nan)")


def write_cells(rows: Iterable[Sequence[str]], into: TextIO) -> None:
    """Write rows as CSV; what a spreadsheet would execute begins with an apostrophe there."""
    writer = csv.writer(into, lineterminator="\n")
    writer.writerows(map(_inert, row) for row in rows)


def _inert(cell: str) -> str:
    cell = cell.replace("\r", r"\r")  # unquoted, it would begin a row
    return f"'{cell}" if cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell) else cell
