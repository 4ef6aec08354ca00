"""The only module that imports numba.cuda: a GPU, or the simulator where NUMBA_ENABLE_CUDASIM=1 was set before."""

from __future__ import annotations

import importlib
import math
import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpuprov.shapes.hardware import WARP
from gpuwork.anneal.streams import STREAM, next_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# Few chains are meant where few are asked for; numba would warn that they leave most of the GPU idle.
os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

# numba ships no types. Kernels and device arrays stay Any, under names that say what they are.
numba: Any = importlib.import_module("numba")
cuda: Any = importlib.import_module("numba.cuda")
DeviceArray = Any
Kernel = Any

SIMULATED: Final[bool] = bool(importlib.import_module("numba.cuda.core.config").ENABLE_CUDASIM)
SIMULATED_BLOCK: Final = 16
_MOST_BLOCK: Final = 1024


class SimulatedStreams:
    """Random streams for the simulator, where numba's own take a hundred times as long."""

    def __init__(self, streams: NDArray[np.void]) -> None:
        self._states = [(int(one["s0"]), int(one["s1"])) for one in streams]

    def next_word(self, chain: int) -> int:
        """The next 64 bits of a chain."""
        state = self._states[chain]
        self._states[chain] = next_state(state)
        return (state[0] + state[1]) & 0xFFFFFFFFFFFFFFFF


def to_streams(streams: NDArray[np.void]) -> Any:  # noqa: ANN401
    """Random streams as kernels take them."""
    if SIMULATED:
        return SimulatedStreams(streams)
    there = cuda.device_array(len(streams), dtype=STREAM)
    there.copy_to_device(streams)
    return there


def make_draws(real: Any) -> tuple[Kernel, Kernel]:  # noqa: ANN401
    """How a kernel draws a number of a chain: uniform in [0, 1), and normal. `real` is numpy's float32 or float64."""
    if SIMULATED:
        return _simulated_draws(real)
    random = importlib.import_module("numba.cuda.random")
    size = np.dtype(real).itemsize * 8
    draw = getattr(random, f"xoroshiro128p_uniform_float{size}")
    below_one = np.nextafter(real(1), real(0))
    one, smallest = real(1), real(2.0**-54)
    two_pi = real(2 * math.pi)

    def uniform(streams: DeviceArray, chain: int) -> Any:  # noqa: ANN401
        value = draw(streams, chain)
        return value if value < one else below_one  # rounded to float32, a number just below 1 becomes 1

    uniform = device_function(uniform)

    def gauss(streams: DeviceArray, chain: int) -> Any:  # noqa: ANN401
        # Box and Muller's, as numba's own, which gives infinity where the first number is 0
        first = uniform(streams, chain)
        second = uniform(streams, chain)
        first = max(smallest, first)
        return real(math.sqrt(real(-2) * math.log(first)) * math.cos(two_pi * second))

    return uniform, device_function(gauss)


def _simulated_draws(real: Any) -> tuple[Kernel, Kernel]:  # noqa: ANN401
    below_one = float(np.nextafter(real(1), real(0)))
    is_narrow = np.dtype(real).itemsize == 4  # noqa: PLR2004  (bytes)

    def uniform(streams: SimulatedStreams, chain: int) -> float:
        value = (streams.next_word(chain) >> 11) * 2.0**-53
        return min(float(real(value)), below_one) if is_narrow else value

    def gauss(streams: SimulatedStreams, chain: int) -> float:
        first, second = uniform(streams, chain), uniform(streams, chain)
        return math.sqrt(-2.0 * math.log(max(first, 2.0**-54))) * math.cos(2 * math.pi * second)

    return uniform, gauss


def device_function(function: Callable[..., Any], *, uses_cuda: bool = False) -> Kernel:
    """A function that kernels can call.

    In the simulator it stays as it is unless it uses `cuda` itself: the wrapper takes a lock on every call.
    """
    return function if SIMULATED and not uses_cuda else cuda.jit(function, device=True)


def to_device(array: NDArray[Any]) -> DeviceArray:
    """Copy an array to the device."""
    return cuda.to_device(np.ascontiguousarray(array))


def to_host(array: DeviceArray) -> NDArray[Any]:
    """Copy an array back."""
    host: NDArray[Any] = array.copy_to_host()
    return host


def best_block(kernel: Kernel) -> int:
    """How many threads of a compiled kernel a block has, so that a multiprocessor holds the most of them."""
    if SIMULATED:
        return SIMULATED_BLOCK
    compiled = next(iter(kernel.overloads.values()))
    most = min(_MOST_BLOCK, int(compiled.max_threads_per_block))
    return max(
        range(WARP, most + 1, WARP),
        key=lambda block: (int(compiled.max_cooperative_grid_blocks(block)) * block, -block),  # blocks at once
    )


def device_facts() -> dict[str, Any]:
    """What a result says of the device."""
    if SIMULATED:
        return {"device": "numba CUDA simulator", "simulated": True}
    name = cuda.get_current_device().name
    return {"device": name.decode() if isinstance(name, bytes) else str(name), "simulated": False}


def local_limit() -> int:
    """The bytes that the state of a chain may have, twice, in a thread."""
    return 512 * 1024 - 16 * 1024  # CUDA's limit for a thread, less what a kernel needs besides
