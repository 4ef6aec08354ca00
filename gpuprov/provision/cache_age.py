"""How old the bases and wheels in the cache are, and which of them go when they are made anew."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.folder_lock import folder_lock
from gpuprov.provision.kept_bases import find_bases, was_taken

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

_DAY_S: Final = 24 * 3600.0
_WHEELS: Final = "wheels-*"


@dataclass(frozen=True, kw_only=True)
class CacheAge:
    """What is in a cache.

    Attributes:
        folder: Where it is.
        bases: When each base was built, in seconds since the epoch, the oldest first.
        wheels: When each set of wheels was fetched.
    """

    folder: Path
    bases: tuple[float, ...] = ()
    wheels: tuple[float, ...] = ()

    def describe(self, now: float) -> str:
        """In one line; empty where there is nothing."""
        parts = [
            *_oldest("base", "bases", self.bases, now),
            *_oldest("set of wheels", "sets of wheels", self.wheels, now),
        ]
        return f"in {self.folder}: {'; '.join(parts)}" if parts else ""


def look_at_cache(folder: Path) -> CacheAge:
    """What is in it now."""
    return CacheAge(folder=folder, bases=_times(find_bases(folder)), wheels=_times(_wheels(folder)))


def forget_older(folder: Path, began: float, *, keep: Collection[Path] = ()) -> tuple[str, ...]:
    """Remove bases and wheels from before that time, but not what a build may be using.

    Args:
        folder: The cache.
        began: In seconds since the epoch.
        keep: Wheels that stay.

    Returns:
        The names of what was removed.
    """
    removed = []
    if not folder.is_dir():
        return ()
    with folder_lock(folder, waits=True):
        for tar in find_bases(folder):
            if tar.stat().st_mtime < began and not was_taken(tar):
                tar.unlink()
                removed.append(tar.name)
        for wheels in _wheels(folder):
            if wheels.stat().st_mtime < began and wheels not in keep and not was_taken(wheels):
                shutil.rmtree(wheels, ignore_errors=True)
                wheels.with_name(f"{wheels.name}.tar").unlink(missing_ok=True)
                removed.append(wheels.name)
    return tuple(removed)


def _wheels(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob(_WHEELS) if path.is_dir())


def _times(paths: Iterable[Path]) -> tuple[float, ...]:
    return tuple(sorted(path.stat().st_mtime for path in paths))


def _oldest(one: str, several: str, times: Sequence[float], now: float) -> Iterator[str]:
    if times:
        age = _days(now - times[0])
        yield f"1 {one}, {age}" if len(times) == 1 else f"{len(times)} {several}, the oldest {age}"


def _days(seconds: float) -> str:
    days = int(seconds / _DAY_S)
    return {0: "less than a day old", 1: "1 day old"}.get(days, f"{days} days old")
