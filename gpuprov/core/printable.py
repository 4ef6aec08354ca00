"""What nodes, engines and users say, made safe to show: nothing of it moves a cursor or hides what stands there."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_LINES = "\n\t"
_LINE_ENDS = str.maketrans(_LINES, "  ")
_DELETE = "\x7f"
_ODD_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")  # controls, marks that reorder text, halves of characters
_STYLE = re.compile(r"\x1b\[\d{0,2}m")  # our own colours


def printable(text: str, *, lines: bool = True, styles: bool = False) -> str:
    r"""The text with every character that would do more than stand there written as `\x1b`.

    Args:
        text: From anywhere.
        lines: Whether it may have several lines and tabs.
        styles: Whether colours stay: for text that this program has put together of printable parts.
    """
    one_line = text.translate(_LINE_ENDS) if lines else text
    if one_line.isascii() and one_line.isprintable():
        return text
    if styles:
        kept = _STYLE.findall(text)
        parts = [printable(part, lines=lines) for part in _STYLE.split(text)]
        return "".join(part + style for part, style in zip(parts, [*kept, ""], strict=True))
    return "".join(character if _stands(character, lines=lines) else _written(character) for character in text)


def continued(text: str) -> str:
    """The text with all lines but the first indented: what a node says begins no line as ours do, such as `fix:`."""
    return text.replace("\n", "\n    ")


def printable_json(document: str) -> str:
    """A JSON document, dumped as Unicode, with the same characters of its strings written as JSON writes them."""
    if document.isascii() and _DELETE not in document:
        return document
    return "".join(
        character if character in _LINES or _stands(character, lines=True) else _written_in_json(character)
        for character in document
    )


@cache
def _stands(character: str, *, lines: bool) -> bool:
    if character in _LINES:
        return lines
    return unicodedata.category(character) not in _ODD_CATEGORIES


def _written(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _written_in_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
