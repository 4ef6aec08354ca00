"""One product on the device: its factors, its place, and its launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smoke_kernels.backend import poison, poisoned, to_device, u32
from smoke_kernels.hashing_device import device_digest
from smoke_kernels.matmul.inputs import padded_flat
from smoke_kernels.matmul.kernel import matmul_kernel
from smoke_kernels.multiprocessors import owners_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoke_kernels.matmul.tiles import Tile


class DeviceProduct:
    """The product of two (size, size) float32 matrices, padded to whole tiles."""

    def __init__(self, tile: Tile, left: NDArray[np.float32], right: NDArray[np.float32]) -> None:
        """Copy the factors to the device."""
        self._tile = tile
        self._padded = tile.padded(left.shape[0])
        self._kernel = matmul_kernel(tile)
        self._left = to_device(padded_flat(left.T, self._padded))
        self._right = to_device(padded_flat(right, self._padded))
        self._words: Any = poisoned(self._padded**2)
        self._product = self._words.view(np.float32)
        self._blocks = self._padded // tile.block
        self.owners: Any = owners_of(self._blocks**2)
        """Which multiprocessor made each tile, row by row, after a launch."""

    def reset(self) -> None:
        """Let nothing of an earlier launch pass for the next one's."""
        poison(self._words)

    def multiply(self) -> None:
        """Launch the kernel once."""
        self._kernel[(self._blocks, self._blocks), self._tile.threads](
            self._left, self._right, self._product, self.owners, u32(self._padded)
        )

    def digest(self, size: int) -> int:
        """Return the digest of the product without its padding, computed on the device."""
        return device_digest(self._words, rows=size, columns=size, stride=self._padded)

    def product(self, size: int) -> NDArray[np.float32]:
        """Return the product without its padding."""
        host: NDArray[np.float32] = self._product.copy_to_host()
        return host.reshape(self._padded, self._padded)[:size, :size]
