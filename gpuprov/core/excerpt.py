"""Text of any length, as much of it as a message needs: what users, engines, nodes and other runs say is quoted so."""

from __future__ import annotations

from gpuprov.core.printable import printable

WORDS = 200  # of somebody's words in the midst of a line
LINE = 1000
LINES = 400


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


def few_lines(text: str, most: int = 12) -> str:
    """The first and the last lines of what a tool said: what it did comes first, and why it ended last."""
    lines = text.strip().splitlines()
    if len(lines) <= most:
        return text.strip()
    half = most // 2
    return "\n".join([*lines[:half], f"[... {len(lines) - 2 * half} lines ...]", *lines[-half:]])


def last_words(text: str, most: int = 5) -> str:
    """The last lines of a log in which a node may have written anything: few, short and printable."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    return "\n".join(excerpt(line) for line in lines[-most:])


def _cut(text: str, limit: int) -> str:
    """Beginning and end, which says what is wrong with what was quoted before."""
    if len(text) <= limit:
        return text
    gap = f" [... {len(text)} characters ...] "
    kept = limit - len(gap)
    if kept < len(gap):
        return text[:limit]
    return text[: kept - kept // 3] + gap + text[-(kept // 3) :]
