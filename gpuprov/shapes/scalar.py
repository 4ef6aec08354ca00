"""A plain word as its value, as YAML 1.2 has it: `1e-3` is a number, `no` and `2026-01-01` are text (docs/grids.md)."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final[dict[str, bool | None]] = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,80}")
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?")


def read_scalar(text: str) -> bool | int | float | str | None:
    """The value of a word that is not in quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
