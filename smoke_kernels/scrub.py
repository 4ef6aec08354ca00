"""Overwrite all memory of a GPU that is free: `python3 -m smoke_kernels.scrub`, before somebody else has the GPU.

It allocates what there is, writes zeros, has another kernel look at every word, and frees it. What programs that run
hold stays theirs; and the driver keeps some memory of its own for each program, this one too, which it does not reach.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from smoke_kernels.backend import SIMULATED, cuda, numba_cuda_submodule, to_device, u32
from smoke_kernels.device import select_device
from smoke_kernels.errors import KernelError, SmokeError

if TYPE_CHECKING:
    from smoke_kernels.backend import DeviceArray

MOST_WORDS: Final = 1 << 30  # of a piece: kernels count in 32 bits
LEAST_WORDS: Final = 1 << 4 if SIMULATED else 1 << 18  # a MiB; the driver gives memory out in pieces of two
_SLACK_BYTES: Final = 64 * 2**20  # of what is said to be free, that may be in smaller pieces
_SIMULATED_WORDS: Final = 1 << 10
_THREADS: Final = 2 if SIMULATED else 256
_BLOCKS: Final = 1 if SIMULATED else 4096
_OUT_OF_MEMORY: Final = 2  # of CUDA's driver


class Memory(Protocol):
    """The memory of a GPU."""

    def free_bytes(self) -> int:
        """How much nobody has."""

    def allocate(self, words: int) -> DeviceArray:
        """Shape (words,), uint32, with whatever was there before; raises MemoryError where there is no such piece."""


class GpuMemory:
    """That of the current GPU. The simulator has none that outlasts a program: there, a small piece stands for it."""

    def __init__(self) -> None:
        self._left = _SIMULATED_WORDS

    def free_bytes(self) -> int:
        """As CUDA's driver says."""
        return self._left * 4 if SIMULATED else int(cuda.current_context().get_memory_info().free)

    def allocate(self, words: int) -> DeviceArray:
        """From CUDA's driver."""
        if SIMULATED:
            if words > self._left:
                raise MemoryError
            self._left -= words
            return cuda.device_array(words, dtype=np.uint32)
        driver = numba_cuda_submodule("cudadrv.driver")
        try:
            return cuda.device_array(words, dtype=np.uint32)
        except driver.CudaAPIError as error:
            if error.code != _OUT_OF_MEMORY:
                raise
            raise MemoryError from error


def write_source(words: DeviceArray, word: int, count: int) -> None:
    """Write one word into each of `count` uint32 words."""
    stride = u32(cuda.blockDim.x * cuda.gridDim.x)
    place = u32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while place < count:
        words[place] = word
        place = u32(place + stride)


def look_source(words: DeviceArray, word: int, count: int, found: DeviceArray) -> None:
    """Add to found[0] how many of `count` uint32 words are that word."""
    stride = u32(cuda.blockDim.x * cuda.gridDim.x)
    place = u32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    mine = 0
    while place < count:
        if words[place] == word:
            mine += 1
        place = u32(place + stride)
    cuda.atomic.add(found, 0, mine)


write_kernel = cuda.jit(write_source)
look_kernel = cuda.jit(look_source)


def write(words: DeviceArray, word: int) -> None:
    """Write one word into all words of an array."""
    write_kernel[_BLOCKS, _THREADS](words, u32(word), u32(words.size))


def count_words(words: DeviceArray, word: int) -> int:
    """How many words of an array are this one, as a kernel finds."""
    found = to_device(np.zeros(1, np.int64))
    look_kernel[_BLOCKS, _THREADS](words, u32(word), u32(words.size), found)
    return int(found.copy_to_host()[0])


def take_all(memory: Memory) -> list[DeviceArray]:
    """All free memory, in pieces as large as there are."""
    pieces, words = [], MOST_WORDS
    while words >= LEAST_WORDS:
        try:
            pieces.append(memory.allocate(words))
        except MemoryError:  # noqa: PERF203 - each try has a piece of another size
            words //= 2
    return pieces


def scrub(memory: Memory) -> int:
    """Overwrite all free memory, and return how many bytes that were.

    Raises:
        KernelError: Not all of it could be allocated, or a word is not zero afterwards.
    """
    free = memory.free_bytes()
    pieces = take_all(memory)
    taken = sum(int(piece.size) * 4 for piece in pieces)
    if taken < free - _SLACK_BYTES or not pieces:
        raise KernelError(
            "not all free memory of the GPU could be allocated",
            evidence=f"{taken} of {free} bytes",
            remedy="nvidia-smi    # a program that runs may hold the memory",
        )
    for piece in pieces:
        write(piece, 0)
    left = sum(piece.size - count_words(piece, 0) for piece in pieces)
    if left:
        raise KernelError(
            "memory of the GPU is not zero after it was overwritten",
            evidence=f"{left} of {taken // 4} words",
            remedy="nvidia-smi -q -d ECC; python3 -m smoke_kernels membw",
        )
    return taken


def main() -> int:
    """Overwrite the free memory of the first GPU that CUDA shows, and say so in a line."""
    try:
        gpu = select_device(0)
        taken = scrub(GpuMemory())
    except SmokeError as error:
        sys.stderr.write(f"{error.what}: {error.evidence}; {error.remedy}\n")
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - numba raises unrelated types; whoever reads this has one line
        sys.stderr.write(
            f"the GPU could not be scrubbed: {type(error).__name__}: {' '.join(str(error).split())[:300]}\n"
        )
        return KernelError.exit_code
    mark = "SIMULATED: " if SIMULATED else ""
    sys.stdout.write(f"{mark}scrubbed {taken} bytes of {gpu['uuid'] or gpu['name']}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
