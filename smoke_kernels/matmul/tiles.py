"""Tile shapes of the matmul kernel, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A block computes (block, block) elements, `depth` products deep at a time, and each thread (thread, thread)."""

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

    @property
    def lanes_across(self) -> int:
        """Threads of a warp along a row: a warp of 4 x 8 threads reads fewer shared vectors than one of 2 x 16."""
        return min(8, self.threads_across)

    @property
    def lanes_down(self) -> int:
        """Threads of a warp along a column."""
        return min(4, self.threads_across)

    @property
    def vectors_per_thread(self) -> int:
        """Vectors of four floats that each thread copies of a (depth, block) tile."""
        return self.block * self.depth // self.threads // 4

    @property
    def group_step(self) -> int:
        """Distance between the groups of four elements that belong to one thread."""
        return 4 * self.threads_across

    def padded(self, size: int) -> int:
        """Return `size` rounded up to whole tiles."""
        return -(-size // self.block) * self.block


GPU_TILE: Final = Tile(block=128, depth=8, thread=8)
# Few threads with much work each: the simulator pays for threads and barriers, not for arithmetic.
SIMULATOR_TILE: Final = Tile(block=64, depth=16, thread=16)
