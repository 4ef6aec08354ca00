"""Run the matmul kernel and prove its result."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from smoke_kernels.backend import SIMULATED
from smoke_kernels.errors import UsageError
from smoke_kernels.golden import check_digests, find_golden
from smoke_kernels.hashing import digest, render_digest
from smoke_kernels.matmul.device import DeviceProduct
from smoke_kernels.matmul.doubles import check_doubles
from smoke_kernels.matmul.inputs import LARGEST_SIZE, exact_product, factors
from smoke_kernels.matmul.mantissas import LARGEST_DEPTH, check_mantissas, rounded_product, tile_factors
from smoke_kernels.matmul.proof import ROUNDS, check_entries, check_freivalds
from smoke_kernels.matmul.tensor import check_tensor_cores
from smoke_kernels.matmul.tiles import GPU_TILE, SIMULATOR_TILE, SMALL_SIMULATOR_TILE
from smoke_kernels.multiprocessors import Census
from smoke_kernels.options import DEFAULT_SEED
from smoke_kernels.result import Check, KernelResult, Proof
from smoke_kernels.timing import Stopwatch, repetitions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoke_kernels.options import Options
    from smoke_kernels.result import GoldenSource

TILE: Final = SIMULATOR_TILE if SIMULATED else GPU_TILE
MANTISSA_TILE: Final = SMALL_SIMULATOR_TILE if SIMULATED else GPU_TILE
MANTISSA_SIZE: Final = 2 * MANTISSA_TILE.block if SIMULATED else LARGEST_DEPTH


@dataclass(frozen=True, kw_only=True)
class Runs:
    """What came out: the last (size, size) product, a digest of each run and of each batch that was timed."""

    product: NDArray[np.float32]
    digests: list[int]
    rounds: int
    stopwatch: Stopwatch


def default_size(*, quick: bool) -> int:
    """Return the size that is run when none is asked for."""
    if SIMULATED:
        return 64 if quick else 128
    return 2048 if quick else 4096


def default_repeats(*, quick: bool) -> int:
    """Return how often the product is made when the user does not say."""
    if SIMULATED:
        return 2
    return 5 if quick else 20


def run_matmul(options: Options) -> KernelResult:
    """Multiply, digest on the device, and prove the last product on the host.

    Raises:
        UsageError: the size is not one this kernel can take.
    """
    size = options.size or default_size(quick=options.quick)
    repeats = options.repeats or default_repeats(quick=options.quick)
    if not 1 <= size <= LARGEST_SIZE:
        raise UsageError(
            f"matmul does not support size {size}",
            evidence=f"sizes are 1 to {LARGEST_SIZE}: beyond that float32 sums of these integers are no longer exact",
            remedy="python3 -m smoke_kernels matmul --size 4096",
        )
    started = time.perf_counter()
    left, right = factors(size, options.seed)
    golden, source = golden_digest(left, right, options.seed)
    prepared = time.perf_counter()
    census = Census()
    runs = _multiply(left, right, options, repeats=repeats, golden=golden, census=census)
    mantissas = _multiply_mantissas(census, runs=1 if SIMULATED else 2)
    units = check_doubles(census, DEFAULT_SEED), check_tensor_cores(census, DEFAULT_SEED)
    ran = time.perf_counter()
    checks = (*check_digests(runs.digests, golden), *prove_product(left, right, runs.product))
    return KernelResult(
        kernel="matmul",
        simulated=SIMULATED,
        parameters={"size": size, "seed": options.seed, "repeats": runs.rounds, "batch": runs.stopwatch.launches},
        proof=Proof(
            digest=render_digest(runs.digests[-1]),
            golden=render_digest(golden),
            golden_source=source,
            checks=(*checks, mantissas, *units, census.check()),
            details={
                "freivalds": {"rounds": ROUNDS, "modulus": "2**31 - 1"},
                "distinct_digests": len(set(runs.digests)),
                **census.details(),
            },
        ),
        rate=runs.stopwatch.rate("GFLOP/s", 2 * size**3 / 1e9),
        seconds={"prepare": prepared - started, "device": ran - prepared, "prove": time.perf_counter() - ran},
    )


def golden_digest(left: NDArray[np.float32], right: NDArray[np.float32], seed: int) -> tuple[int, GoldenSource]:
    """Return the digest the product must have: shipped, or computed here where the table has none."""
    entry = find_golden("matmul", seed=seed, size=left.shape[0])
    if entry is not None:
        return int(entry["digest"], 16), "shipped"
    return digest(exact_product(left, right).view(np.uint32)), "computed"


def prove_product(
    left: NDArray[np.float32], right: NDArray[np.float32], product: NDArray[np.float32]
) -> tuple[Check, ...]:
    """Check the entries, then the product itself with fresh randomness; (size, size) float32 each."""
    entries = check_entries(product)
    if not entries.passed:
        return (entries,)
    return entries, check_freivalds(left, right, product, np.random.default_rng())


def _multiply(
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    options: Options,
    *,
    repeats: int,
    golden: int,
    census: Census,
) -> Runs:
    """Multiply at least `repeats` times: each time once to look at it, and then in a batch to time it."""
    size = left.shape[0]
    device = DeviceProduct(TILE, left, right)
    digests: list[int] = []
    stopwatch = Stopwatch()

    for rounds in repetitions(repeats=repeats, seconds=options.seconds):  # noqa: B007  (the last one is told)
        device.reset()
        device.multiply()
        digests.append(device.digest(size))
        owners = device.owners.copy_to_host()
        census.add(owners)
        # To find where a product is wrong takes the host a second or two: once is enough.
        if digests[-1] != golden and not census.wrong:
            census.blame(owners, TILE.tiles_that_differ(device.product(size), exact_product(left, right)))
        if stopwatch.time(device.multiply, reset=device.reset):
            digests.append(device.digest(size))
    return Runs(product=device.product(size), digests=digests, rounds=rounds, stopwatch=stopwatch)


def _multiply_mantissas(census: Census, runs: int) -> Check:
    """Make the product of full mantissas some times, and hold every tile against the reference."""
    tile, depth = MANTISSA_TILE, MANTISSA_SIZE
    across = depth // tile.block
    left, right = tile_factors(tile.block, depth, DEFAULT_SEED)
    expected = np.tile(rounded_product(left, right), (across, across))
    device = DeviceProduct(tile, np.tile(left, (across, 1)), np.tile(right, (1, across)))
    wrong = []
    for _ in range(runs):
        device.reset()
        device.multiply()
        owners = device.owners.copy_to_host()
        census.add(owners)
        wrong.append(tile.tiles_that_differ(device.product(depth), expected))
        census.blame(owners, wrong[-1])
    return check_mantissas(wrong, tiles=across**2, depth=depth)
