"""The smoke kernels' speed on this machine's GPU: matmul beside cuBLAS, membw beside the driver's own copy.

Usage: python -m benchmarks.kernels [--sizes 2048 4096 8192] [--repeats 20] [--json]
Needs a GPU and: python -m pip install 'numba-cuda[cu13]>=0.30,<0.31'; cuBLAS is looked for (nvidia-cublas, PyTorch, a
toolkit), and without it ours stands alone.

Every number is the median of batches timed with events, in one process, ours and theirs in turn. Ours must hold their
proofs, and cuBLAS's product must have the same digest (its entries are integers that float32 holds exactly). Prints
tables in Markdown for docs/smoke-kernels.md, with the anneal rates of the same run. Without a GPU it measures nothing
and exits with 3.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.util
import json
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
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec

    from smoke_kernels.result import KernelResult

TOOLKITS: Final = Path("/usr/local")
LIBRARIES: Final = ("libcublas.so.13", "libcublas.so.12")
COPY_BYTES: Final = 1 << 30
NO_DEVICE: Final = 3
SCHEMA: Final = "gpuprov.kernel-rates/v1"
_AS_IT_IS: Final = 0  # CUBLAS_OP_N; cuBLAS's default math of float32 has no TF32


class Cublas:
    """The few calls of cuBLAS that a product needs.

    Raises:
        OSError: There is no cuBLAS, or it refuses.
    """

    def __init__(self) -> None:
        self._library = load_cublas()
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


def find_cublas(find: Callable[[str], ModuleSpec | None] = importlib.util.find_spec) -> tuple[str, ...]:
    """Where it may be, the best guess first: NVIDIA's wheels, PyTorch's own folder, a toolkit, the loader's paths."""
    folders: list[Path] = []
    for package, below in (("nvidia", "*/lib"), ("torch", "lib")):
        spec = find(package)
        places = (spec.submodule_search_locations or []) if spec else []
        folders += [folder for place in places for folder in sorted(Path(place).glob(below))]
    folders += sorted(TOOLKITS.glob("cuda*/lib64"))
    found = [str(folder / name) for name in LIBRARIES for folder in folders if (folder / name).exists()]
    return (*found, *LIBRARIES)


def load_cublas() -> ctypes.CDLL:
    """The first that can be loaded.

    Raises:
        OSError: None can.
    """
    for name in find_cublas():
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise OSError(f"the loader finds none of {', '.join(find_cublas())}")


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


def measure(sizes: Sequence[int], repeats: int) -> dict[str, Any]:
    """Measure everything; what cuBLAS does is left out where there is none, and said."""
    device = find_gpu()
    cublas, why = None, ""
    try:
        cublas = Cublas()
    except OSError as error:
        why = f"no cuBLAS: {error}"
    products = []
    for size in sizes:
        if cublas is None:
            ours = rate_of(run_matmul(Options(size=size, repeats=repeats))) / 1e3
            products.append({"size": size, "tflops": ours, "cublas_tflops": None})
        else:
            ours, theirs = compare_matmul(cublas, size, repeats)
            products.append({"size": size, "tflops": ours, "cublas_tflops": theirs})
    ours, theirs = compare_copy(repeats)
    return {
        "schema": SCHEMA,
        "passed": True,
        "why": why,
        "device": device,
        "repeats": repeats,
        "matmul": products,
        "copy": {"bytes": COPY_BYTES, "gb_per_s": ours, "driver_gb_per_s": theirs},
        "anneal": [{"variant": words, "flips_per_ns": rate} for words, rate in anneal_rates(seconds=2.0)],
    }


def render(measured: Mapping[str, Any]) -> str:
    """Tables in Markdown."""
    device, copy = measured["device"], measured["copy"]
    lines = [f"{device['name']}, driver {device['driver_version']}, medians of {measured['repeats']} batches", ""]
    lines += ["| matmul | smoke kernel, TFLOP/s | cuBLAS, TFLOP/s | of cuBLAS |", "|---|---|---|---|"]
    for row in measured["matmul"]:
        theirs = row["cublas_tflops"]
        beside = f"{theirs:.1f} | {row['tflops'] / theirs:.0%}" if theirs else "not there | "
        lines.append(f"| {row['size']} | {row['tflops']:.1f} | {beside} |")
    lines += ["", "| copy of 1 GiB | smoke kernel, GB/s | driver, GB/s |", "|---|---|---|"]
    lines += [f"| read plus write | {copy['gb_per_s']:.0f} | {copy['driver_gb_per_s']:.0f} |", ""]
    lines += ["| anneal | flips/ns |", "|---|---|"]
    lines += [f"| {row['variant']} | {row['flips_per_ns']:.0f} |" for row in measured["anneal"]]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 3 without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2048, 4096, 8192])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    wanted = parser.parse_args(arguments)
    try:
        measured = measure(wanted.sizes, wanted.repeats)
    except DeviceError as error:
        sys.stderr.write(
            f"error: {error.what}\nevidence: {error.evidence}\nfix: {error.remedy}\nnothing was measured\n"
        )
        return NO_DEVICE
    sys.stdout.write(json.dumps(measured) + "\n" if wanted.json else render(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
