"""The kernels of membw: fill a buffer with a pattern, copy it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoke_kernels.backend import SIMULATED, cuda, u32, u64
from smoke_kernels.hashing import WEYL
from smoke_kernels.hashing_device import mix_word
from smoke_kernels.multiprocessors import own_multiprocessor
from smoke_kernels.vectors import LANES, load_four, store_four

if TYPE_CHECKING:
    from smoke_kernels.backend import DeviceArray

THREADS = 2 if SIMULATED else 256
STEP_WORDS = THREADS * LANES
CHUNK_WORDS = 4 * STEP_WORDS
"""Words that a block copies at a time."""


def fill_source(words: DeviceArray, key: int, count: int) -> None:
    """Write the pattern, word i = mix(i WEYL ^ key), into `count` uint32 words."""
    stride = u32(cuda.blockDim.x * cuda.gridDim.x)
    place = u32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while place < count:
        words[place] = mix_word(u32(u32(place * u32(WEYL)) ^ key))
        place = u32(place + stride)


def copy_source(source: DeviceArray, target: DeviceArray, owners: DeviceArray, count: int) -> None:
    """Copy `count` uint32 words, a multiple of CHUNK_WORDS, 16 bytes an instruction, loads before stores.

    Block b copies chunk b, and from there every chunk that lies a grid further; `owners` gets its multiprocessor.
    """
    if cuda.threadIdx.x == 0:
        owners[cuda.blockIdx.x] = own_multiprocessor()
    vector = u32(u32(cuda.threadIdx.x) * u32(LANES))
    stride = u32(u32(cuda.gridDim.x) * u32(CHUNK_WORDS))
    base = u32(u32(cuda.blockIdx.x) * u32(CHUNK_WORDS))
    while base < count:
        place = u64(base + vector)
        first = load_four(source, place)
        second = load_four(source, place + u64(STEP_WORDS))
        third = load_four(source, place + u64(2 * STEP_WORDS))
        fourth = load_four(source, place + u64(3 * STEP_WORDS))
        store_four(target, place, first)
        store_four(target, place + u64(STEP_WORDS), second)
        store_four(target, place + u64(2 * STEP_WORDS), third)
        store_four(target, place + u64(3 * STEP_WORDS), fourth)
        base = u32(base + stride)


fill_kernel = cuda.jit(fill_source)
copy_kernel = cuda.jit(copy_source)
