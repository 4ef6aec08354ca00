"""Run the anneal kernel and prove that it found the planted ground state."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smoke_kernels.anneal.kernel import anneal_kernel
from smoke_kernels.anneal.lattice import REPLICAS, Lattice, initial_spins, planted_lattice
from smoke_kernels.anneal.packing import join_colours, pack_bonds, split_colours
from smoke_kernels.anneal.proof import check_energy
from smoke_kernels.anneal.reference import anneal_reference
from smoke_kernels.anneal.schedule import sweep_parameters
from smoke_kernels.backend import SIMULATED, poisoned, to_device, u32
from smoke_kernels.errors import UsageError
from smoke_kernels.golden import check_digests, find_golden
from smoke_kernels.hashing import digest, render_digest
from smoke_kernels.hashing_device import device_digest
from smoke_kernels.result import KernelResult, Proof, Rate
from smoke_kernels.timing import launch_seconds, repetitions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoke_kernels.options import Options
    from smoke_kernels.result import GoldenSource

SMALLEST_SIZE: Final = 8
LARGEST_SIZE: Final = 8192
LARGEST_SWEEPS: Final = 100_000

_ONE_BLOCK_SITES: Final = 64 * 64
_BLOCK_THREADS: Final = 2 if SIMULATED else 256
_ONE_BLOCK_THREADS: Final = 2 if SIMULATED else 1024


def default_problem(*, quick: bool) -> tuple[int, int]:
    """Return the size and the sweeps that are run when none are asked for."""
    if SIMULATED:
        return (8, 32) if quick else (16, 64)
    return 64, 1000


def run_anneal(options: Options) -> KernelResult:
    """Anneal, digest the final spins on the device, and recompute every replica's energy on the host.

    Raises:
        UsageError: size or sweeps are not ones this kernel can take.
    """
    default_size, default_sweeps = default_problem(quick=options.quick)
    size = options.size or default_size
    sweeps = options.sweeps or default_sweeps
    repeats = options.repeats or (1 if SIMULATED else 5)
    _validate(size, sweeps)
    started = time.perf_counter()
    lattice = planted_lattice(size, options.seed)
    spins = initial_spins(size, options.seed)
    parameters = sweep_parameters(sweeps, options.seed)
    golden, source = golden_digest(lattice, spins, parameters, options.seed)
    prepared = time.perf_counter()
    final, digests, launches = _anneal(lattice, spins, parameters, options, repeats)
    ran = time.perf_counter()
    energy, details = check_energy(lattice, final)
    flips = REPLICAS * size**2 * sweeps
    return KernelResult(
        kernel="anneal",
        simulated=SIMULATED,
        parameters={"size": size, "sweeps": sweeps, "replicas": REPLICAS, "seed": options.seed, "repeats": len(digests)},
        proof=Proof(
            digest=render_digest(digests[-1]),
            golden=render_digest(golden),
            golden_source=source,
            checks=(*check_digests(digests, golden), energy),
            details={"energy": details, "distinct_digests": len(set(digests))},
        ),
        rate=Rate(unit="flips/ns", samples=tuple(flips / s / 1e9 for s in launches)) if launches else None,
        seconds={"prepare": prepared - started, "device": ran - prepared, "prove": time.perf_counter() - ran},
    )


def golden_digest(
    lattice: Lattice, spins: NDArray[np.uint32], parameters: NDArray[np.uint32], seed: int
) -> tuple[int, GoldenSource]:
    """Return the digest the final spins must have: shipped, or computed here where the table has none."""
    entry = find_golden("anneal", seed=seed, size=lattice.size, sweeps=len(parameters))
    if entry is not None:
        return int(entry["digest"], 16), "shipped"
    return digest(split_colours(anneal_reference(lattice, spins, parameters))), "computed"


def _validate(size: int, sweeps: int) -> None:
    if not SMALLEST_SIZE <= size <= LARGEST_SIZE or size & (size - 1):
        raise UsageError(
            f"anneal cannot take size {size}",
            evidence=f"sizes are powers of two from {SMALLEST_SIZE} to {LARGEST_SIZE}",
            remedy="python3 -m smoke_kernels anneal --size 64",
        )
    if not 1 <= sweeps <= LARGEST_SWEEPS:
        raise UsageError(
            f"anneal cannot take {sweeps} sweeps",
            evidence=f"sweeps are 1 to {LARGEST_SWEEPS}",
            remedy="python3 -m smoke_kernels anneal --sweeps 1000",
        )


def _anneal(
    lattice: Lattice, spins: NDArray[np.uint32], parameters: NDArray[np.uint32], options: Options, repeats: int
) -> tuple[NDArray[np.uint32], list[int], list[float]]:
    """Return the last run's (size, size) spins, every run's digest, and the seconds of every run after the first."""
    size = lattice.size
    start = split_colours(spins).reshape(-1)
    bonds = to_device(pack_bonds(lattice).reshape(-1))
    table = to_device(parameters.reshape(-1))
    device_spins: Any = poisoned(start.size)
    digests: list[int] = []
    launches: list[float] = []
    log2_size = u32(size.bit_length() - 1)
    halves = 2 * len(parameters)

    def launch() -> None:
        if size**2 <= _ONE_BLOCK_SITES or SIMULATED:
            anneal_kernel[1, _ONE_BLOCK_THREADS](device_spins, bonds, table, log2_size, u32(0), u32(halves))
            return
        blocks = min(size**2 // 2 // _BLOCK_THREADS, 65535)
        for half in range(halves):
            anneal_kernel[blocks, _BLOCK_THREADS](device_spins, bonds, table, log2_size, u32(half), u32(half + 1))

    for number in repetitions(repeats=repeats, seconds=options.seconds):
        device_spins.copy_to_device(start)
        seconds = launch_seconds(launch)
        digests.append(device_digest(device_spins, rows=2 * size, columns=size // 2, stride=size // 2))
        if seconds is not None and number > 0:
            launches.append(seconds)
    return join_colours(device_spins.copy_to_host().reshape(2, size, size // 2)), digests, launches
