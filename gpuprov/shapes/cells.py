"""CSV of ours: no cell is a formula for the spreadsheet that opens it. Numbers stay numbers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

_FORMULA: Final = ("=", "+", "-", "@", "\t")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|nan)")


def write_cells(rows: Iterable[Sequence[str]], into: TextIO) -> None:
    """Write rows as CSV; what a spreadsheet would execute begins with an apostrophe there."""
    writer = csv.writer(into, lineterminator="\n")
    writer.writerows(map(_inert, row) for row in rows)


def render_cells(rows: Iterable[Sequence[str]]) -> str:
    """Rows as such CSV."""
    text = io.StringIO()
    write_cells(rows, text)
    return text.getvalue()


def _inert(cell: str) -> str:
    cell = cell.replace("\r", r"\r")  # unquoted, it would begin a row
    return f"'{cell}" if cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell) else cell
