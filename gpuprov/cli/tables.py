"""Tables for people: a pipe gets every column, a terminal those that fit.

    render_table(("JOB", "NAME", "USER"), rows, screen=session.screen, spare=("USER",))

In a pipe (`PIPE`), a table is as wide as its cells, a line a row, so that scripts can split it. At a terminal it gets
as wide as that, in this order: columns without content go; columns named by `spare` go, the first one first, but those
for which there is room beside the rest with its texts wrapped; texts wrap below each other within their column. A last
line names the columns that went with `spare`. So name there what a reader misses least, and never the column that
tells rows apart.

Text beside tables is left to the terminal, which wraps it without breaking what is copied, such as a command.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, TextIO

from gpuprov.cli.progress import DIM, GREEN, PLAIN, RED, YELLOW, can_show
from gpuprov.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BOLD = "\x1b[1m"
GAP = "  "
EMPTY = "-"  # so that a line splits into as many words as there are columns
COLOURS = {
    "ok": GREEN,
    "pass": GREEN,
    "passed": GREEN,
    "idle": GREEN,
    "running": GREEN,
    "ready": GREEN,
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
_TEXT: Final = 32  # characters that a column of text keeps while spare columns are still shown
_PIECES: Final = re.compile(r"[^\s,]*,\s*|[^\s,]+\s*")  # of a text, which may be broken between them
_ITEMS: Final = re.compile(r"(?:(?!, ).)+(?:, )?")
_NAME: Final = 10  # of a field
_UUID: Final = 12  # characters of a real one
_SIMULATED: Final = "-5151-4151-8151-"
_LEAST: Final = 6  # characters that every column keeps


@dataclass(frozen=True, kw_only=True)
class Screen:
    """What stdout is for a table: `columns` is None in a pipe, which gets all columns whatever their width."""

    colour: bool = False
    columns: int | None = None


PIPE: Final = Screen()


def screen_of(stream: TextIO, environment: Mapping[str, str]) -> Screen:
    """The terminal's width and colours; `COLUMNS` overrides the width."""
    if not stream.isatty():
        return PIPE
    return Screen(colour=can_show(stream, environment), columns=shutil.get_terminal_size().columns)


def render_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], *, screen: Screen = PIPE, spare: Sequence[str] = ()
) -> str:
    """Lay out rows under headers; a cell that is empty or None is shown as `-`.

    Args:
        headers: One for each column.
        rows: Cells, in the order of the headers.
        screen: Where it is shown (`Session.screen`).
        spare: Headers of columns that a narrow terminal leaves out, the first one first.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    table = [_Column(header, [row[place] for row in cells]) for place, header in enumerate(headers)]
    shown, left_out = _choose(table, screen.columns, spare)
    _narrow(shown, screen.columns)
    lines = _lines(shown, [column.header for column in shown], [BOLD if screen.colour else ""] * len(shown))
    for row in zip(*(column.cells for column in shown), strict=True):
        lines += _lines(shown, row, [COLOURS.get(cell, "") if screen.colour else "" for cell in row])
    if left_out:
        note = f"not shown: {', '.join(left_out)}; for all columns, append: | cat"
        lines.append(f"{DIM}{note}{PLAIN}" if screen.colour else note)
    return "\n".join(lines)


def short_uuid(uuid: str) -> str:
    """The characters that tell a GPU from others in a table: real UUIDs differ at once, simulated ones at their end."""
    head, simulated, number = uuid.partition(_SIMULATED)
    return f"{head}..{number.lstrip('0') or '0'}" if simulated else uuid[:_UUID]


def render_fields(fields: Iterable[tuple[str, str]], *, screen: Screen = PIPE) -> str:
    """A line for each name with its value; at a terminal, long values go on below themselves."""
    lines = []
    for name, value in fields:
        head = f"  {name:<{_NAME}}"
        if screen.columns is None or screen.columns <= 2 * len(head):
            lines.append(f"{head}{value}")
            continue
        first, *more = _wrap(value, screen.columns - len(head))
        lines += [f"{head}{first}", *(f"{' ' * len(head)}{part}" for part in more)]
    return "\n".join(lines)


class _Column:
    """The cells below a header, and how wide they are shown."""

    def __init__(self, header: str, cells: Sequence[str]) -> None:
        self.header = header
        self.cells = cells
        self.width = max(map(len, (header, *cells)))
        self.longest = max(len(piece.rstrip()) for text in (header, *cells) for piece in _PIECES.findall(text))
        self.least = min(self.width, max(_TEXT, self.longest))

    @property
    def empty(self) -> bool:
        """Whether there are rows, and none has anything here."""
        return bool(self.cells) and all(cell == EMPTY for cell in self.cells)

    def wrap(self, text: str) -> list[str]:
        """The lines of a cell, broken behind items of a list, or else behind words, or else anywhere."""
        return _wrap(text, self.width)


def _wrap(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    lines = [""]
    items = _ITEMS.findall(text)
    is_list = ";" not in text and all(len(item.rstrip()) <= min(width, _TEXT) for item in items)
    for piece in items if is_list else _PIECES.findall(text):
        left = piece
        while len(lines[-1]) + len(left.rstrip()) > width:
            if lines[-1]:
                lines.append("")
            else:
                lines[-1], left = left[:width], left[width:]
        lines[-1] += left
    return [line.rstrip() for line in lines]


def _choose(table: Sequence[_Column], columns: int | None, spare: Sequence[str]) -> tuple[list[_Column], list[str]]:
    """The columns to show, and the headers of those with content that are left out."""
    shown = list(table)
    if columns is None or _total(column.width for column in shown) <= columns:
        return shown, []
    shown = [column for place, column in enumerate(table) if place == 0 or not column.empty]
    kept = [column for column in shown if column.header not in spare]
    for header in reversed(spare):
        more = [column for column in shown if column in kept or column.header == header]
        kept = more if _total(column.least for column in more) <= columns else kept
    headers = [column.header for column in shown if column not in kept]
    return kept, [header for header in spare if header in headers]


def _narrow(shown: Sequence[_Column], columns: int | None) -> None:
    """Take width from the widest text, then from short texts, and last from words, which are broken then."""
    while columns is not None and _total(column.width for column in shown) > columns:
        wide = [column for column in shown if column.width > column.least]
        wide = wide or [column for column in shown if column.width > column.longest]
        wide = wide or [column for column in shown if column.width > _LEAST]
        if not wide:
            return
        max(wide, key=lambda column: column.width).width -= 1


def _total(widths: Iterable[int]) -> int:
    each = list(widths)
    return sum(each) + len(GAP) * (len(each) - 1)


def _lines(shown: Sequence[_Column], texts: Sequence[str], styles: Sequence[str]) -> list[str]:
    """A row: one line, or more where texts are wrapped."""
    wrapped = [column.wrap(text) for column, text in zip(shown, texts, strict=True)]
    lines = []
    for parts in zip_longest(*wrapped, fillvalue=""):
        line = []
        for column, part, style in zip(shown, parts, styles, strict=True):
            padded = part if column is shown[-1] else part.ljust(column.width)
            line.append(f"{style}{padded}{PLAIN}" if style and part else padded)
        lines.append(GAP.join(line).rstrip())
    return lines


def _cell(value: object) -> str:
    return EMPTY if value is None else printable(" ".join(str(value).split()), lines=False) or EMPTY
