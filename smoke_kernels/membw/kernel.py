"""The kernels of membw: fill a buffer with a pattern, copy it."""

from __future__ import annotations

import numpy as np

from smoke_kernels.backend import SIMULATED, DeviceArray, cuda, u32
from smoke_kernels.hashing import WEYL
from smoke_kernels.hashing_device import mix_word

THREADS = 2 if SIMULATED else 256
WORDS_PER_THREAD = 4


def fill_source(words: DeviceArray, key: int, count: int) -> None:
    """Write the pattern, word i = mix(i WEYL ^ key), into `count` uint32 words."""
    first = u32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    for place in range(first, count, u32(cuda.blockDim.x * cuda.gridDim.x)):
        words[place] = mix_word(u32(u32(place * u32(WEYL)) ^ key))


def copy_source(source: DeviceArray, target: DeviceArray, count: int) -> None:
    """Copy `count` uint64 words, a multiple of THREADS x WORDS_PER_THREAD: all loads of a thread before its stores."""
    held = cuda.local.array(WORDS_PER_THREAD, np.uint64)
    thread = u32(cuda.threadIdx.x)
    chunk = THREADS * WORDS_PER_THREAD
    for base in range(u32(cuda.blockIdx.x * chunk), count, u32(cuda.gridDim.x * chunk)):
        for i in range(WORDS_PER_THREAD):
            held[i] = source[u32(base + thread + u32(i * THREADS))]
        for i in range(WORDS_PER_THREAD):
            target[u32(base + thread + u32(i * THREADS))] = held[i]


fill_kernel = cuda.jit(fill_source)
copy_kernel = cuda.jit(copy_source)
