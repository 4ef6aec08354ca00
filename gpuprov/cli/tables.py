"""Tables for people: columns as wide as they need, headers bold and verdicts coloured on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli.live import DIM, GREEN, PLAIN, RED, YELLOW
from gpuprov.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

BOLD = "\x1b[1m"
GAP = "  "
EMPTY = "-"  # so that a line splits into as many words as there are columns
COLOURS = {
    "ok": GREEN,
    "pass": GREEN,
    "passed": GREEN,
    "idle": GREEN,
    "running": GREEN,
    "done": GREEN,
    "warn": YELLOW,
    "warning": YELLOW,
    "stopped": YELLOW,
    "waiting": YELLOW,
    "fail": RED,
    "failed": RED,
    "down": RED,
    "error": RED,
    "lost": RED,
    "info": DIM,
    "skip": DIM,
    "cancelled": DIM,
}


def render_table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, colour: bool = False) -> str:
    """Lay out rows under headers; a cell that is empty or None is shown as `-`.

    Args:
        headers: One for each column.
        rows: Cells, in the order of the headers.
        colour: Whether the reader is a terminal (`Session.colour`).
    """
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[column]) for line in (list(headers), *cells)) for column in range(len(headers))]
    lines = [_line(headers, widths, style=BOLD if colour else "")]
    lines += [_line(row, widths, colours=COLOURS if colour else {}) for row in cells]
    return "\n".join(lines)


def _cell(value: object) -> str:
    return EMPTY if value is None else printable(" ".join(str(value).split()), lines=False) or EMPTY


def _line(
    cells: Sequence[str], widths: Sequence[int], *, style: str = "", colours: dict[str, str] | None = None
) -> str:
    parts = []
    for position, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        padded = cell if position == len(cells) - 1 else cell.ljust(width)
        start = style or (colours or {}).get(cell, "")
        parts.append(f"{start}{padded}{PLAIN}" if start else padded)
    return GAP.join(parts).rstrip()
