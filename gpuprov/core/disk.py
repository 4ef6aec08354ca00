"""How full a disk is, in words, before it is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpuprov.core.units import GIB

NEARLY_FULL: Final = 85  # per cent
ALMOST_FULL: Final = 95


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
    def words(self) -> str:
        """How full it is, with what is left of what is scarcer."""
        if _used(self.total_files, self.free_files) > _used(self.total_bytes, self.free_bytes):
            return f"{self.percent} % full: {self.free_files} of {self.total_files} inodes free"
        return f"{self.percent} % full: {self.free_bytes / GIB:.1f} GiB of {self.total_bytes / GIB:.1f} GiB free"


def _used(total: int, free: int) -> int:
    return 100 * (total - free) // total if total else 0
