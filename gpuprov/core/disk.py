"""How full a disk is, in words, before it is full."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.units import GIB

if TYPE_CHECKING:
    from collections.abc import Sequence

NEARLY_FULL: Final = 85  # per cent
ALMOST_FULL: Final = 95
ROOM_FOR_IMAGE_BYTES: Final = 4 * GIB
COUNT_S: Final = 5.0  # for which what is on a disk is counted
_TOLD: Final = 3


@dataclass(frozen=True, kw_only=True)
class Disk:
    """The space of a file system or of a storage pool, and its inodes where it counts them."""

    total_bytes: int
    free_bytes: int
    total_files: int = 0
    free_files: int = 0

    @property
    def percent(self) -> int:
        """How much of it is used: of its space or of its inodes, whichever is scarcer."""
        return max(_used(self.total_bytes, self.free_bytes), _used(self.total_files, self.free_files))

    @property
    def is_scarce(self) -> bool:
        """Whether it is worth the time to count who uses it."""
        return self.percent >= NEARLY_FULL or self.free_bytes < ROOM_FOR_IMAGE_BYTES

    @property
    def words(self) -> str:
        """How full it is, with what is left of what is scarcer."""
        if _used(self.total_files, self.free_files) > _used(self.total_bytes, self.free_bytes):
            return f"{self.percent} % full: {self.free_files} of {self.total_files} inodes free"
        return f"{self.percent} % full: {self.free_bytes / GIB:.1f} GiB of {self.total_bytes / GIB:.1f} GiB free"


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What uses the most of a disk.

    Attributes:
        largest: What it is, bytes, and files where they were counted.
        whole: Whether all was counted; else there was no time for it, or no way.
    """

    largest: tuple[tuple[str, int, int], ...] = ()
    whole: bool = True

    @property
    def words(self) -> str:
        """In a line; empty where nothing is known."""
        said = ", ".join(
            f"{name} {size / GIB:.1f} GiB" + (f" in {files} files" if files else "")
            for name, size, files in self.largest
        )
        return said if self.whole or not said else f"{said} (not all could be counted in {COUNT_S:g} s)"


@dataclass(frozen=True, kw_only=True)
class StorageUse:
    """What one thing takes of an engine's storage; of what it shares with others, nothing.

    Attributes:
        kind: Such as `node`, `image` or `snapshot`.
        size_bytes: None where it could not be counted.
    """

    kind: str
    name: str
    size_bytes: int | None


def rank_usage(taken: Sequence[StorageUse]) -> Usage:
    """What each kind takes together, those with the most first, then the largest things."""
    counted = [(one, one.size_bytes) for one in taken if one.size_bytes is not None]
    kinds: dict[str, list[int]] = defaultdict(list)
    for one, size_bytes in counted:
        kinds[one.kind].append(size_bytes)
    together = [(f"{len(sizes)} {kind}s", sum(sizes), 0) for kind, sizes in kinds.items() if len(sizes) > 1]
    singly = [(f"{one.kind} {one.name}", size_bytes, 0) for one, size_bytes in counted]
    by_size = [sorted(entries, key=lambda entry: -entry[1]) for entries in (together, singly)]
    return Usage(largest=(*by_size[0], *by_size[1][:_TOLD]), whole=len(counted) == len(taken))


def _used(total: int, free: int) -> int:
    return 100 * (total - free) // total if total else 0
