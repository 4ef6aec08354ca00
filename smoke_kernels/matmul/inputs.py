"""Matrices of small integers, and their exact product on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from smoke_kernels.hashing import counter_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_ENTRY: Final = 8
LARGEST_SIZE: Final = 8192
"""Up to here every partial sum stays below 2**24 in magnitude, where float32 is exact."""

_STREAM_LEFT: Final = 11
_STREAM_RIGHT: Final = 12


def factors(size: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the two (size, size) factors, integers in [-8, 8]."""
    return _matrix(size, seed, _STREAM_LEFT), _matrix(size, seed, _STREAM_RIGHT)


def _matrix(size: int, seed: int, stream: int) -> NDArray[np.float32]:
    words = counter_words(size * size, seed=seed, stream=stream)
    words %= np.uint32(2 * LARGEST_ENTRY + 1)
    entries = words.astype(np.float32)
    entries -= np.float32(LARGEST_ENTRY)
    return entries.reshape(size, size)


def exact_product(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the (size, size) product, exact in any order of summation: no partial sum reaches 2**24."""
    product: NDArray[np.float32] = np.matmul(left, right)
    return product


def padded_flat(matrix: NDArray[np.float32], padded: int) -> NDArray[np.float32]:
    """Return the matrix with zeros up to (padded, padded), flat in row order."""
    grown = np.zeros((padded, padded), np.float32)
    grown[: matrix.shape[0], : matrix.shape[1]] = matrix
    return grown.reshape(-1)
