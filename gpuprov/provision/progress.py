"""How far mmdebstrap and pip are, from the lines that they write: pure, and in words for people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLANNED: Final = re.compile(r"\d+ upgraded, (\d+) newly installed")
_SIZE: Final = re.compile(r"Need to get (\S+ \w+)(?:/(\S+ \w+))? of archives")
_GOT: Final = re.compile(r"Get:(\d+) ")
_EXTRACTING: Final = "I: extracting archives"
_STEPS: Final = {
    "I: running --setup-hook": "fetching the lists of packages",
    _EXTRACTING: "unpacking the essential packages",
    "I: creating tarball": "writing the tar file",
}
_WHEEL: Final = re.compile(r"\s*Downloading \S*?([^/\s]+\.whl)(?:\.metadata)? (\([^)]+\))")


class BaseProgress:
    """Of a base root file system, by what mmdebstrap and the apt in it say.

    Attributes:
        fetched: Whether all packages are there.
    """

    def __init__(self) -> None:
        self.fetched = False
        self._packages = 0
        self._size = ""
        self._set_up = 0

    def hear(self, lines: Iterable[str]) -> str:
        """What goes on by the last of the lines that tells something new; empty where none does."""
        return _last(self._hear(line) for line in lines)

    def _hear(self, line: str) -> str:
        if not self._packages and (planned := _PLANNED.match(line)):
            self._packages = int(planned[1])  # of all: what follows in its parts has been fetched by then
        elif not self._size and (size := _SIZE.match(line)):
            self._size = f"{size[1]} of {size[2]} missing" if size[2] else size[1]
        elif self._packages and (got := _GOT.match(line)):
            return f"fetched {got[1]} of {self._packages} packages ({self._size})"
        elif self._packages and line.startswith("Setting up "):
            self._set_up += 1
            return f"installed {min(self._set_up, self._packages)} of {self._packages} packages"
        self.fetched = self.fetched or line.startswith(_EXTRACTING)
        return next((words for begin, words in _STEPS.items() if line.startswith(begin)), "")


def hear_pip(lines: Iterable[str]) -> str:
    """The wheel that pip fetches, with its size; empty where the lines tell of none."""
    found = (_WHEEL.match(line) for line in lines)
    return _last(f"fetching {wheel[1]} {wheel[2]}" for wheel in found if wheel)


def _last(states: Iterable[str]) -> str:
    return next(iter([state for state in states if state][-1:]), "")
