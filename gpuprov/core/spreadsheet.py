"""CSV of ours: no cell is a formula for the spreadsheet that opens it. `gpuwork.cells` does the same in nodes."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FORMULA: Final = ("=", "+", "-", "@", "\t")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|nan)")


def render_cells(rows: Iterable[Sequence[str]]) -> str:
    """Rows as CSV; what a spreadsheet would execute begins with an apostrophe there, and numbers stay numbers."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(_inert, row) for row in rows)
    return text.getvalue()


def _inert(cell: str) -> str:
    cell = cell.replace("\r", r"\r")  # unquoted, it would begin a row
    return f"'{cell}" if cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell) else cell
