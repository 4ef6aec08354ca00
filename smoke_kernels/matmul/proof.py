"""Proofs that a product is right, from host arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from smoke_kernels.matmul.inputs import LARGEST_ENTRY
from smoke_kernels.result import Check

if TYPE_CHECKING:
    from numpy.typing import NDArray

PRIME: Final = 2**31 - 1
ROUNDS: Final = 2

_BLOCK_ROWS: Final = 1024


def check_entries(product: NDArray[np.float32]) -> Check:
    """Require that every entry is an integer this product can hold; NaN and infinity are none."""
    limit = LARGEST_ENTRY**2 * product.shape[0]
    with np.errstate(invalid="ignore"):
        good = np.isfinite(product) & (np.abs(product) <= limit) & (np.rint(product) == product)
    bad = int(product.size - np.count_nonzero(good))
    evidence = f"{product.size} integers within {limit}"
    if bad:
        row, column = (int(place) for place in np.argwhere(~good)[0])
        first = f"[{row}, {column}] = {product[row, column]}"
        evidence = f"{bad} of {product.size} entries are not integers within {limit}, first {first}"
    return Check(name="entries", passed=bad == 0, evidence=evidence)


def check_freivalds(
    left: NDArray[np.float32], right: NDArray[np.float32], product: NDArray[np.float32], random: np.random.Generator
) -> Check:
    """Compare left (right x) with product x modulo 2**31 - 1 for fresh random vectors x.

    A wrong product passes one round with a chance of at most 1 / (2**31 - 1). Entries have passed `check_entries`.
    """
    size = product.shape[0]
    for round_number in range(1, ROUNDS + 1):
        vector: NDArray[np.int64] = random.integers(0, PRIME, size=(size,), dtype=np.int64)
        expected = _times_vector(left, _times_vector(right, vector))
        wrong = np.flatnonzero(expected != _times_vector(product, vector))
        if wrong.size:
            evidence = (
                f"round {round_number}: {wrong.size} of {size} rows differ modulo 2**31 - 1, first row {wrong[0]}"
            )
            return Check(name="freivalds", passed=False, evidence=evidence)
    return Check(name="freivalds", passed=True, evidence=f"{ROUNDS} rounds modulo 2**31 - 1 agree in {size} rows")


def _times_vector(matrix: NDArray[np.float32], vector: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return matrix @ vector modulo PRIME, exactly, by float64 BLAS.

    Entries stay within 2**19 and half a vector element within 2**16, so no sum of 2**13 products reaches 2**53.
    """
    halves = np.stack([vector >> 16, vector & 0xFFFF], axis=1).astype(np.float64)
    result = np.empty(matrix.shape[0], np.int64)
    for start in range(0, matrix.shape[0], _BLOCK_ROWS):
        block = matrix[start : start + _BLOCK_ROWS].astype(np.float64)
        high, low = np.matmul(block, halves).astype(np.int64).T
        result[start : start + _BLOCK_ROWS] = (high % PRIME * (1 << 16) + low) % PRIME
    return result
