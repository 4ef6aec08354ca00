"""Which kernels a source launches, after the preprocessor has left out what is not for this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_LAUNCH: Final = re.compile(r"([A-Za-z_]\w*)\s*(?:<[^<>;{}]*>)?\s*<<<")
_MARK: Final = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch of a kernel in a source."""

    kernel: str
    file: str
    line: int


def find_launches(preprocessed: str) -> list[Launch]:
    """Each launch `name<<<...>>>`, where the markers of the preprocessor say it was written."""
    found: list[Launch] = []
    file, line = "", 0
    for text in preprocessed.splitlines():
        mark = _MARK.match(text)
        if mark:
            file, line = mark[2], int(mark[1]) - 1
            continue
        line += 1
        found += [
            Launch(kernel=launch[1], file=file, line=line) for launch in _LAUNCH.finditer(_STRING.sub('""', text))
        ]
    return found
