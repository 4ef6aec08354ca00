"""A product in float64, for the double-precision units: full mantissas, rounded at every step, still bit for bit.

The speed of these units is no matter here, so the kernel is plain: an element a thread, in the order of k. Every block
makes the same small product, and is held against the same reference.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from smoke_kernels.backend import SIMULATED, cuda, device_function, to_device, u32
from smoke_kernels.hashing import counter_words
from smoke_kernels.matmul.blocks import check_blocks
from smoke_kernels.multiprocessors import own_multiprocessor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoke_kernels.backend import DeviceArray, DeviceWord, Kernel
    from smoke_kernels.multiprocessors import Census
    from smoke_kernels.result import Check

SIDE: Final = 4 if SIMULATED else 16
DEPTH: Final = 32 if SIMULATED else 1024

_STREAM_LEFT: Final = 15
_STREAM_RIGHT: Final = 16
_MANTISSA_BITS: Final = 52
_EXPONENT_BITS: Final = 3
_LOWEST_EXPONENT: Final = 1023 - 4
# An entry is a whole number of these, so a product and a sum of products are whole numbers of its square.
_UNITS: Final = 2 ** (4 + _MANTISSA_BITS)


def _multiply_add(left: DeviceWord, right: DeviceWord, total: DeviceWord) -> DeviceWord:
    return total + left * right


def _multiply_add_exactly(left: DeviceWord, right: DeviceWord, total: DeviceWord) -> DeviceWord:
    return float(Fraction(float(left)) * Fraction(float(right)) + Fraction(float(total)))


# A GPU's instruction rounds once, as a fraction does when it becomes a float.
multiply_add = device_function(_multiply_add_exactly if SIMULATED else _multiply_add)


def doubles_source(
    left: DeviceArray, right: DeviceArray, product: DeviceArray, owners: DeviceArray, depth: DeviceWord
) -> None:
    """Multiply (side, depth) by (depth, side) float64 in every block of (side, side) threads; all arrays are flat."""
    side, row, column = u32(cuda.blockDim.x), u32(cuda.threadIdx.y), u32(cuda.threadIdx.x)
    total = np.float64(0)
    k = u32(0)
    while k < depth:
        total = multiply_add(left[u32(u32(row * depth) + k)], right[u32(u32(k * side) + column)], total)
        k = u32(k + u32(1))
    product[u32(u32(u32(u32(cuda.blockIdx.x) * side) + row) * side + column)] = total
    if row == 0 and column == 0:
        owners[cuda.blockIdx.x] = own_multiprocessor()


@cache
def _doubles_kernel() -> Kernel:
    return cuda.jit(doubles_source)


def entries(rows: int, columns: int, *, seed: int, stream: int) -> NDArray[np.float64]:
    """Return (rows, columns) float64 of both signs, with all 53 bits of the mantissa and magnitudes of 1/16 to 16."""
    words = counter_words(2 * rows * columns, seed=seed, stream=stream).view(np.uint64).reshape(rows, columns)
    sign = words & np.uint64(1 << 63)
    mantissa = words & np.uint64((1 << _MANTISSA_BITS) - 1)
    exponent = words >> np.uint64(_MANTISSA_BITS) & np.uint64((1 << _EXPONENT_BITS) - 1)
    exponent = exponent + np.uint64(_LOWEST_EXPONENT) << np.uint64(_MANTISSA_BITS)
    found: NDArray[np.float64] = (sign | exponent | mantissa).view(np.float64)
    return found


def fused_product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what fused multiply-adds in the order of k give, by integers: Python rounds one to the nearest float64."""
    rows = [[int(value * _UNITS) for value in row] for row in left.tolist()]
    columns = [[int(value * _UNITS) for value in column] for column in right.T.tolist()]
    product = np.empty((len(rows), len(columns)), np.float64)
    for place in np.ndindex(product.shape):
        total = 0
        for first, second in zip(rows[place[0]], columns[place[1]], strict=True):
            total = int(float(total + first * second))
        product[place] = total / _UNITS**2
    return product


def check_doubles(census: Census, seed: int) -> Check:
    """Make the product in every block some times, and require the same bits of all."""
    left = entries(SIDE, DEPTH, seed=seed, stream=_STREAM_LEFT)
    right = entries(DEPTH, SIDE, seed=seed, stream=_STREAM_RIGHT)
    factors = to_device(left.reshape(-1)), to_device(right.reshape(-1))

    def launch(blocks: int, words: DeviceArray, owners: DeviceArray) -> None:
        _doubles_kernel()[blocks, (SIDE, SIDE)](*factors, words.view(np.float64), owners, u32(DEPTH))

    return check_blocks(
        census,
        launch,
        fused_product(left, right).view(np.uint32).reshape(-1),
        name="doubles",
        what=f"{SIDE} x {SIDE} sums of {DEPTH} float64 products",
    )
