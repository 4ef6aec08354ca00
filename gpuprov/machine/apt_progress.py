"""How far apt is that another program has started: by what it fetches into its folders, and by dpkg's log."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

ARCHIVES: Final = "var/cache/apt/archives"
COMING: Final = f"{ARCHIVES}/partial"
LISTS_COMING: Final = "var/lib/apt/lists/partial"
DPKG_LOG: Final = "var/log/dpkg.log"
_MB: Final = 10**6
_BEGUN: Final = re.compile(r"\S+ \S+ (?:install|upgrade) ([^:\s]+)")
_ENDED: Final = re.compile(r"\S+ \S+ status installed ([^:\s]+)")


class AptProgress:
    """What is new since this was made.

    Args:
        root: Of the machine's files.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._before = {folder: _sizes(root / folder) for folder in (ARCHIVES, COMING, LISTS_COMING)}
        self._read_bytes = _size(root / DPKG_LOG)
        self._rest = self._told = ""
        self._begun: set[str] = set()
        self._installed: set[str] = set()

    def look(self) -> str:
        """How far it is now, in words; empty where that has been told."""
        self._read_log()
        words = self._describe()
        if words == self._told:
            return ""
        self._told = words
        return words

    def _describe(self) -> str:
        fetched, coming, lists = map(self._new_in, (ARCHIVES, COMING, LISTS_COMING))
        if self._installed:
            done = len(self._installed)
            return f"installed {f'{done} of ' if done <= len(fetched) else ''}{_packages(max(done, len(fetched)))}"
        if fetched or coming:
            names = ", ".join(sorted(name.partition("_")[0] for name in coming))
            so_far = f"fetched {_packages(len(fetched))} ({sum([*fetched.values(), *coming.values()]) / _MB:.0f} MB)"
            return f"fetching {names}; {so_far}" if names else so_far
        return "fetching the lists of packages" if lists else ""

    def _new_in(self, folder: str) -> dict[str, int]:
        """The files that were not there, or of another size, and their sizes."""
        before = self._before[folder]
        return {name: size for name, size in _sizes(self._root / folder).items() if before.get(name) != size}

    def _read_log(self) -> None:
        log = self._root / DPKG_LOG
        if _size(log) < self._read_bytes:  # another log has begun
            self._read_bytes, self._rest = 0, ""
        with suppress(OSError), log.open("rb") as handle:
            handle.seek(self._read_bytes)
            new = handle.read()
            self._read_bytes += len(new)
            *lines, self._rest = (self._rest + new.decode(errors="replace")).split("\n")
            for line in lines:
                if begun := _BEGUN.match(line):
                    self._begun.add(begun[1])
                elif (ended := _ENDED.match(line)) and ended[1] in self._begun:
                    self._installed.add(ended[1])


def _packages(count: int) -> str:
    return f"{count} package{'' if count == 1 else 's'}"


def _sizes(folder: Path) -> dict[str, int]:
    """The files of a folder and their sizes, without apt's own such as `lock`."""
    with suppress(OSError):
        return {path.name: _size(path) for path in folder.iterdir() if "_" in path.name}
    return {}


def _size(file: Path) -> int:
    with suppress(OSError):  # it is gone meanwhile
        return file.stat().st_size
    return 0
