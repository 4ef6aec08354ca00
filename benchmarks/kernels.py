"""The smoke kernels' speed on this machine's GPU: matmul beside cuBLAS, membw beside the driver's own copy.

Usage: python -m benchmarks.kernels [--sizes 2048 4096 8192] [--repeats 20]
Needs a GPU and: python -m pip install 'numba-cuda[cu13]>=0.30,<0.31' nvidia-cublas

Every number is the median of launches timed with events, in one process, ours and theirs in turn. Ours must hold their
proofs, and cuBLAS's product must have the same digest (its entries are integers that float32 holds exactly). Prints
tables in Markdown for docs/smoke-kernels.md, with the anneal rates of the same run. Without a GPU it measures nothing
and exits with 3.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from smoke_kernels.anneal.run import run_anneal
from smoke_kernels.backend import SIMULATED, poisoned, to_device
from smoke_kernels.device import select_device
from smoke_kernels.errors import DeviceError
from smoke_kernels.hashing_device import device_digest
from smoke_kernels.matmul.inputs import factors
from smoke_kernels.matmul.run import golden_digest, run_matmul
from smoke_kernels.membw.run import run_membw
from smoke_kernels.options import DEFAULT_SEED, Options
from smoke_kernels.timing import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from smoke_kernels.result import KernelResult

LIBRARIES: Final = ("libcublas.so.13", "libcublas.so.12")
COPY_BYTES: Final = 1 << 30
NO_DEVICE: Final = 3
_AS_IT_IS: Final = 0  # CUBLAS_OP_N; cuBLAS's default math of float32 has no TF32


class Cublas:
    """The few calls of cuBLAS that a product needs.

    Raises:
        OSError: There is no cuBLAS, or it refuses.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL(find_cublas())
        self._handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))

    def multiply(self, left: Any, right: Any, product: Any, size: int) -> None:  # noqa: ANN401 - device arrays
        """Row-major C = A B, which is B A of the transposed, column-major matrices that cuBLAS takes."""
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        self._call(
            "cublasSgemm_v2", self._handle, _AS_IT_IS, _AS_IT_IS, size, size, size, ctypes.byref(one),
            _pointer(right), size, _pointer(left), size, ctypes.byref(zero), _pointer(product), size,
        )  # fmt: skip

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise OSError(f"{name} says {code}")


def find_cublas() -> str:
    """The wheel's library, else what the loader finds by name."""
    nvidia = importlib.util.find_spec("nvidia")
    for folder in (nvidia.submodule_search_locations or []) if nvidia else []:
        for name in LIBRARIES:
            for path in Path(folder).glob(f"*/lib/{name}"):
                return str(path)
    return LIBRARIES[0]


def _pointer(array: Any) -> ctypes.c_void_p:  # noqa: ANN401 - device array
    return ctypes.c_void_p(array.__cuda_array_interface__["data"][0])


def median_seconds(launch: Callable[[], None], repeats: int) -> float:
    """Of one launch, in batches as the smoke kernels time themselves; the first launch may compile and is not timed."""
    launch()
    stopwatch = Stopwatch()
    for _ in range(repeats):
        stopwatch.time(launch, reset=lambda: None)
    return statistics.median(stopwatch.samples)


def compare_matmul(cublas: Cublas, size: int, repeats: int) -> tuple[float, float]:
    """TFLOP/s of ours, whose proofs must hold, and of cuBLAS's, whose digest must be the same.

    Raises:
        SystemExit: A product is wrong.
    """
    ours = rate_of(run_matmul(Options(size=size, repeats=repeats))) / 1e3
    left, right = factors(size, DEFAULT_SEED)
    left_device, right_device, words = to_device(left), to_device(right), poisoned(size * size)
    seconds = median_seconds(lambda: cublas.multiply(left_device, right_device, words, size), repeats)
    if device_digest(words, rows=size, columns=size, stride=size) != golden_digest(left, right, DEFAULT_SEED)[0]:
        raise SystemExit(f"cuBLAS's product of size {size} is another one than ours")
    return ours, 2 * size**3 / seconds / 1e12


def compare_copy(repeats: int) -> tuple[float, float]:
    """GB/s, read plus write, of our copy and of the driver's."""
    ours = rate_of(run_membw(Options(size=COPY_BYTES, repeats=repeats)))
    source, target = poisoned(COPY_BYTES // 4), poisoned(COPY_BYTES // 4)
    seconds = median_seconds(lambda: target.copy_to_device(source), repeats)
    return ours, 2 * COPY_BYTES / seconds / 1e9


def rate_of(result: KernelResult) -> float:
    """The median rate of a run whose proofs hold.

    Raises:
        SystemExit: They do not.
    """
    if not result.passed or result.rate is None:
        raise SystemExit(f"{result.kernel}: its proofs do not hold: {result.proof}")
    return result.rate.median


def anneal_rates(seconds: float) -> list[tuple[str, float]]:
    """Median flips/ns of each mode."""
    modes = {
        "32 replicas, shared random numbers": Options(seconds=seconds),
        "32 replicas, one for each spin": Options(seconds=seconds, independent=True),
        "one replica, one for each spin": Options(seconds=seconds, one_replica=True),
    }
    return [(words, rate_of(run_anneal(options))) for words, options in modes.items()]


def find_gpu() -> dict[str, Any]:
    """Describe the first GPU.

    Raises:
        DeviceError: There is none.
    """
    if SIMULATED:
        raise DeviceError("the simulator has no speed", evidence="NUMBA_ENABLE_CUDASIM is set", remedy="unset it")
    return select_device(0)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 3 without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2048, 4096, 8192])
    parser.add_argument("--repeats", type=int, default=20)
    wanted = parser.parse_args(arguments)
    try:
        device = find_gpu()
    except DeviceError as error:
        sys.stderr.write(
            f"error: {error.what}\nevidence: {error.evidence}\nfix: {error.remedy}\nnothing was measured\n"
        )
        return NO_DEVICE
    cublas = Cublas()
    out = sys.stdout.write
    out(f"{device['name']}, driver {device['driver_version']}, medians of {wanted.repeats} launches\n\n")
    out("| matmul | smoke kernel, TFLOP/s | cuBLAS, TFLOP/s | of cuBLAS |\n|---|---|---|---|\n")
    for size in wanted.sizes:
        ours, theirs = compare_matmul(cublas, size, wanted.repeats)
        out(f"| {size} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.0%} |\n")
    ours, theirs = compare_copy(wanted.repeats)
    out("\n| copy of 1 GiB | smoke kernel, GB/s | driver, GB/s |\n|---|---|---|\n")
    out(f"| read plus write | {ours:.0f} | {theirs:.0f} |\n")
    out("\n| anneal | flips/ns |\n|---|---|\n")
    for words, rate in anneal_rates(seconds=2.0):
        out(f"| {words} | {rate:.0f} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
