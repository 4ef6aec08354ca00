"""The only module that imports numba.cuda: a GPU, or the simulator where NUMBA_ENABLE_CUDASIM=1 was set before."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# One block for one small problem is meant; numba would warn on stderr that it leaves most of the GPU idle.
os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

# numba ships no types. Kernels, device arrays and device words stay Any, under names that say what they are.
cuda: Any = importlib.import_module("numba.cuda")
DeviceArray = Any
DeviceWord = Any
Kernel = Any
UntypedModule = Any

SIMULATED: Final[bool] = bool(importlib.import_module("numba.cuda.core.config").ENABLE_CUDASIM)

if not SIMULATED and not hasattr(np, "row_stack"):
    raise ImportError(f"numba-cuda 0.30 cannot compile for a GPU with NumPy {np.__version__}; it needs numpy<2.5")

# The simulator knows no alignment; on a GPU 16 bytes let the compiler load four floats in one instruction.
ALIGNMENT: Final[int | None] = None if SIMULATED else 16

# A launch overwrites all of its output. All bits set is NaN as a float, and no word that a digest expects.
POISON_BYTE: Final = 0xFF

if SIMULATED:
    # The simulator runs one OS thread per CUDA thread; the default of 5 ms between switches is what makes it slow.
    sys.setswitchinterval(2e-4)

    def _shared_array(
        block: UntypedModule, shape: int, dtype: type, *_alignment: None, **_by_name: None
    ) -> DeviceArray:
        """Return the block's array for the caller's line; setdefault is atomic, so all threads get the same one."""
        caller = sys._getframe(1)  # noqa: SLF001 - as numba finds the line, without reading the source each time
        place = (caller.f_code.co_filename, caller.f_lineno)
        return block._allocations.setdefault(place, np.empty(shape, dtype))  # noqa: SLF001 - numba keeps them there

    # numba looks and then stores: a busy machine switches threads between the two, and threads of one block then work
    # on different arrays (seen as a wrong matmul with 32 nodes on 2 CPUs).
    importlib.import_module("numba.cuda.simulator.kernelapi").FakeCUDAShared.array = _shared_array


def _wrap_to_32_bits(value: DeviceWord) -> int:
    return int(value) & 0xFFFFFFFF


# Inside kernels u32(x) wraps x to 32 bits. Python integers in the simulator, because numpy's scalars warn on overflow.
u32: Any = _wrap_to_32_bits if SIMULATED else np.uint32
u64: Any = int if SIMULATED else np.uint64


def numba_cuda_submodule(name: str) -> UntypedModule:
    """Return the module numba.cuda.<name>, which the simulator may lack."""
    return importlib.import_module(f"numba.cuda.{name}")


def device_function(function: Callable[..., Any]) -> Kernel:
    """Return `function` so that kernels can call it; it must not use `cuda` itself.

    The simulator gets the plain function: its wrapper takes a lock on every call. The compiler gets it inlined before
    types are known: otherwise numba asks a GPU for its capability, and the compile gate has none.
    """
    return function if SIMULATED else cuda.jit(function, device=True, inline="always")


def to_device(array: NDArray[Any]) -> DeviceArray:
    """Copy a host array to the device."""
    return cuda.to_device(np.ascontiguousarray(array))


def poisoned(words: int) -> DeviceArray:
    """Return a new device array of shape (words,), uint32, with every bit set."""
    array = cuda.device_array(words, dtype=np.uint32)
    poison(array)
    return array


def poison(array: DeviceArray) -> None:
    """Set every bit of a device array, so that a result of an earlier launch cannot pass for this one's."""
    if SIMULATED:
        array.copy_to_device(np.full(array.shape, 0xFFFFFFFF, np.uint32).view(array.dtype))
    else:
        numba_cuda_submodule("cudadrv.driver").device_memset(array, POISON_BYTE, array.nbytes)
