"""A second product, whose entries use the whole mantissa: rounding included, still bit for bit.

The integers of the first product leave most bits of a float32 alone. Here, in turns, one factor has 24 bits and the
other 17: every bit of the operands, of the products and of the sums is at work. A sum is rounded at each step, so the
order counts; the kernel adds in the order of k, and so does the reference. Neither product nor sum needs more than 53
bits before it is rounded, so float64 does on the host what one multiply-add does on a GPU.

All tiles of the product are the same: every block is held against the same small reference, and a wrong one is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from smoke_kernels.hashing import counter_words
from smoke_kernels.result import Check

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_DEPTH: Final = 2048
"""2**11 products of 41 bits: no sum reaches 2**53."""

WIDE_BITS: Final = 24
NARROW_BITS: Final = 17

_STREAM_LEFT: Final = 13
_STREAM_RIGHT: Final = 14


def tile_factors(block: int, depth: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the factors of one tile, (block, depth) and (depth, block) float32 integers with the top bit set."""
    even = np.arange(depth) % 2 == 0
    left = _entries(block, depth, seed, _STREAM_LEFT, np.where(even, WIDE_BITS, NARROW_BITS))
    right = _entries(block, depth, seed, _STREAM_RIGHT, np.where(even, NARROW_BITS, WIDE_BITS))
    return left, np.ascontiguousarray(right.T)


def _entries(block: int, depth: int, seed: int, stream: int, bits: NDArray[np.int64]) -> NDArray[np.float32]:
    words = counter_words(block * depth, seed=seed, stream=stream).reshape(block, depth)
    top = np.left_shift(np.uint32(1), (bits - 1).astype(np.uint32))
    magnitudes = (words & (top - np.uint32(1)) | top).astype(np.float32)
    signed: NDArray[np.float32] = np.where(words >> np.uint32(31) == 1, -magnitudes, magnitudes)
    return signed


def rounded_product(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what fused multiply-adds in the order of k give, each rounded to float32."""
    sums = np.zeros((left.shape[0], right.shape[1]), np.float32)
    wide_left, wide_right = left.astype(np.float64), right.astype(np.float64)
    for k in range(left.shape[1]):
        sums = (sums + np.multiply.outer(wide_left[:, k], wide_right[k])).astype(np.float32)
    return sums


def check_mantissas(wrong: list[list[int]], *, tiles: int, depth: int) -> Check:
    """Require that no tile of any run is wrong."""
    bad = sum(len(places) for places in wrong)
    evidence = (
        f"{tiles * len(wrong) - bad} of {tiles * len(wrong)} tiles of {depth} rounded sums of full mantissas agree"
    )
    return Check(name="mantissas", passed=not bad, evidence=evidence)
