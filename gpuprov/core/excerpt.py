"""Text of any length, as much of it as a message needs: what users, engines, nodes and other runs say is quoted so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpuprov.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

WORDS = 200  # of somebody's words in the midst of a line
LINE = 1000
LINES = 400
_EXHAUSTED: Final = re.compile(
    r"no space left|disk quota|errno 28\b|read-only file system|cannot allocate", re.IGNORECASE
)
_CAUSE: Final = re.compile(
    rf"{_EXHAUSTED.pattern}|^(E|W|ERROR|Error|error|fatal|dpkg|mount|tar): |: error\b", re.IGNORECASE
)


def excerpt(text: str, limit: int = WORDS) -> str:
    """The text in one line of at most `limit` characters, printable."""
    most = max(limit, 0)
    return _cut(printable(_cut(text, most), lines=False), most)


def shorten(text: str, limit: int = LINE) -> str:
    """The text with lines of at most `limit` characters, and not more than LINES of them."""
    if len(text) <= limit:
        return text
    lines = text.split("\n")
    if len(lines) > LINES:
        half = LINES // 2
        lines = [*lines[:half], f"[... {len(lines) - 2 * half} lines ...]", *lines[-half:]]
    return "\n".join(_cut(line, limit) for line in lines)


def few(names: Sequence[str], most: int, *, between: str = ", ") -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def first_lines(lines: Sequence[str], most: int) -> str:
    """The first of them, a line each, and in one more how many there are besides."""
    return "\n".join([*lines[:most], *([f"and {len(lines) - most} more"] if len(lines) > most else [])])


def few_lines(text: str, most: int = 12) -> str:
    """The first and the last lines of what a tool said: what it did comes first, and why it ended last."""
    lines = text.strip().splitlines()
    if len(lines) <= most:
        return text.strip()
    half = most // 2
    return "\n".join([*lines[:half], f"[... {len(lines) - 2 * half} lines ...]", *lines[-half:]])


def end_and_causes(text: str, most: int) -> str:
    """The last lines of what a tool said, and before them what it called an error above them.

    dpkg names all packages that it could not install after it has said why, and these can be a hundred.
    """
    lines = text.strip().splitlines()
    if len(lines) <= most:
        return text.strip()
    room = most // 3
    end = lines[room - most + 1 :]
    causes = [line for line in dict.fromkeys(lines[: -len(end)]) if _CAUSE.search(line)]
    if not causes:
        return "\n".join(lines[-most:])
    first = sorted(causes, key=lambda line: not _EXHAUSTED.search(line))[:room]
    return "\n".join([*(line for line in causes if line in first), "[...]", *end])


def last_words(text: str, most: int = 5, *, width: int = WORDS) -> str:
    """The last lines of a log in which a node may have written anything: few, short and printable."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    return "\n".join(excerpt(line, width) for line in lines[-most:])


def _cut(text: str, limit: int) -> str:
    """Beginning and end, which says what is wrong with what was quoted before."""
    if len(text) <= limit:
        return text
    gap = f" [... {len(text)} characters ...] "
    kept = limit - len(gap)
    if kept < len(gap):
        return text[:limit]
    return text[: kept - kept // 3] + gap + text[-(kept // 3) :]
