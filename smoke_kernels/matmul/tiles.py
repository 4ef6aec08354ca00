"""Tile shapes of the matmul kernel, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A block computes (block, block) elements of the product, `depth` products deep at a time; a thread (thread, thread)."""

    block: int
    depth: int
    thread: int

    @property
    def threads_across(self) -> int:
        """Threads along one side of the block's tile."""
        return self.block // self.thread

    @property
    def threads(self) -> int:
        """Threads in a block."""
        return self.threads_across**2

    def padded(self, size: int) -> int:
        """Return `size` rounded up to whole tiles."""
        return -(-size // self.block) * self.block


GPU_TILE: Final = Tile(block=128, depth=8, thread=8)
# Few threads with much work each: the simulator pays for threads and barriers, not for arithmetic.
SIMULATOR_TILE: Final = Tile(block=64, depth=16, thread=16)
