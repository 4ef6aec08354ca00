"""Versions of Debian packages, in the order in which dpkg puts them."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Final

_PARTS: Final = re.compile(r"([^0-9]*)([0-9]*)", re.ASCII)


def version_key(version: str) -> tuple[int, list[tuple[list[int], int]], list[tuple[list[int], int]]]:
    """What orders versions: epoch, version and revision; of each the parts, letters and number by turns."""
    epoch, colon, rest = version.rpartition(":")
    upstream, dash, revision = rest.rpartition("-")
    known = int(epoch) if colon and epoch.isdecimal() else 0
    return known, _parts(upstream if dash else rest), _parts(revision if dash else "")


def older_version(one: str, other: str) -> bool:
    """Whether a version comes before another one."""
    first, second = version_key(one), version_key(other)
    if first[0] != second[0]:
        return first[0] < second[0]
    for mine, theirs in zip(first[1:], second[1:], strict=True):
        for left, right in zip_longest(mine, theirs, fillvalue=_NOTHING):
            if left != right:
                return left < right
    return False


def _parts(text: str) -> list[tuple[list[int], int]]:
    found = [match.groups() for match in _PARTS.finditer(text) if match[0]]
    return [([*map(_order, letters), _END], int(digits or 0)) for letters, digits in found]


def _order(character: str) -> int:
    """A tilde comes before the end, the end before letters, and these before all else."""
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256


_END: Final = 0
_NOTHING: Final = ([_END], 0)
