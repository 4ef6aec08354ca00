"""Tile shapes of the matmul kernel, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


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

    def tiles_that_differ(self, product: NDArray[np.float32], expected: NDArray[np.float32]) -> list[int]:
        """Return the numbers, row by row, of the tiles in which two (size, size) products differ in any bit."""
        rows, columns = np.nonzero(product.view(np.uint32) != expected.view(np.uint32))
        across = self.padded(product.shape[0]) // self.block
        return sorted(set((rows // self.block * across + columns // self.block).tolist()))

    def padded(self, size: int) -> int:
        """Return `size` rounded up to whole tiles."""
        return -(-size // self.block) * self.block


GPU_TILE: Final = Tile(block=128, depth=8, thread=8)
# Few threads with much work each: the simulator pays for threads and barriers, not for arithmetic.
SIMULATOR_TILE: Final = Tile(block=64, depth=16, thread=16)
SMALL_SIMULATOR_TILE: Final = Tile(block=16, depth=16, thread=8)
