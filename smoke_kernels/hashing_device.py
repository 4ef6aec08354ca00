"""The device side of hashing: mix() inside kernels, and the digest of a device array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from smoke_kernels.backend import SIMULATED, cuda, device_function, poisoned, u32, u64
from smoke_kernels.hashing import DIGEST_SALT, MIX_FIRST, MIX_SECOND

if TYPE_CHECKING:
    from smoke_kernels.backend import DeviceArray, DeviceWord

BLOCKS: Final = 1 if SIMULATED else 512
THREADS: Final = 2 if SIMULATED else 256


def _mix(word: DeviceWord) -> DeviceWord:
    mixed = u32(word ^ (word >> 16))
    mixed = u32(mixed * u32(MIX_FIRST))
    mixed = u32(mixed ^ (mixed >> 13))
    mixed = u32(mixed * u32(MIX_SECOND))
    return u32(mixed ^ (mixed >> 16))


mix_word = device_function(_mix)


def digest_source(words: DeviceArray, rows: int, columns: int, stride: int, partials: DeviceArray) -> None:
    """Sum the hashes of (rows, columns) uint32 arrays, one for each row of blocks, whose rows lie `stride` words apart.

    `partials` gets two uint64 sums a thread. Sums of integers are the same in any order, so the grid does not matter.
    """
    first = u32(u32(cuda.blockIdx.y) * u32(rows * stride))
    column_step, row_step = u32(cuda.blockDim.x), u32(cuda.gridDim.x)
    low_sum = u64(0)
    high_sum = u64(0)
    row = u32(cuda.blockIdx.x)
    # Strided loops are written with while: range() would divide to count its steps, in every thread and row.
    while row < rows:
        column = u32(cuda.threadIdx.x)
        while column < columns:
            word = u32(words[u32(u32(first + u32(row * stride)) + column)])
            place = u32(u32(row * columns) + column)
            low = mix_word(u32(word ^ mix_word(u32(place ^ u32(DIGEST_SALT)))))
            low_sum += low
            high_sum += mix_word(u32(low + word))
            column = u32(column + column_step)
        row = u32(row + row_step)
    block = cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x
    thread = block * cuda.blockDim.x + cuda.threadIdx.x
    partials[2 * thread] = low_sum
    partials[2 * thread + 1] = high_sum


digest_kernel = cuda.jit(digest_source)


def device_digest(words: DeviceArray, *, rows: int, columns: int, stride: int) -> int:
    """Return `hashing.digest` of the (rows, columns) part of a uint32 device array, computed on the device."""
    (only,) = device_digests(words, copies=1, rows=rows, columns=columns, stride=stride)
    return only


def device_digests(words: DeviceArray, *, copies: int, rows: int, columns: int, stride: int) -> list[int]:
    """Return the digest of each of some arrays that lie one after the other in a uint32 device array."""
    blocks = max(1, BLOCKS // copies)
    partials = poisoned(copies * blocks * THREADS * 4).view(np.uint64)
    digest_kernel[(blocks, copies), THREADS](words, u32(rows), u32(columns), u32(stride), partials)
    sums = partials.copy_to_host().reshape(copies, -1, 2).sum(axis=1, dtype=np.uint64)
    return [(int(low) + (int(high) << 32)) & 0xFFFFFFFFFFFFFFFF for low, high in sums]
