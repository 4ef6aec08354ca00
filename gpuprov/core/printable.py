"""Text that somebody else wrote, as it may be shown: one line, no control characters, and not without end."""

from __future__ import annotations

LONGEST = 200


def printable(text: str, limit: int = LONGEST) -> str:
    r"""The text in one line of at most `limit` characters.

    What moves a cursor, hides or reverses text (control characters, escape codes, direction marks) is written as
    `\x1b`. Of a text that is too long, the beginning is kept, and how long it was.
    """
    shown = text[:limit]
    shown = "".join(letter if letter.isprintable() else _escape(letter) for letter in shown)
    if len(text) > limit or len(shown) > limit:
        tail = f"... ({len(text)} characters)"
        return (shown[: max(0, limit - len(tail))] + tail)[:limit]
    return shown


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape", "backslashreplace").decode("ascii")
