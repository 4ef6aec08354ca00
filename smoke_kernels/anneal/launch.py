"""Run a problem on the device, as often as asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from smoke_kernels.anneal.kernel import anneal_kernel
from smoke_kernels.anneal.packing import join_colours, pack_bonds, split_colours
from smoke_kernels.anneal.single import pack_site_bonds, pack_sites, single_kernel, unpack_sites
from smoke_kernels.backend import SIMULATED, poison, poisoned, to_device, u32
from smoke_kernels.grid import can_sync_grids, most_blocks
from smoke_kernels.hashing_device import device_digest
from smoke_kernels.timing import Stopwatch, repetitions

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from smoke_kernels.anneal.problem import Problem
    from smoke_kernels.backend import Kernel

# One block holds so many sites; more need the whole device.
_ONE_BLOCK_SITES: Final = 64 * 64
_ONE_BLOCK_THREADS: Final = 2 if SIMULATED else 1024
_BLOCK_THREADS: Final = 2 if SIMULATED else 256
_MOST_BLOCKS: Final = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Runs:
    """What came out: the last run's (size, size) spins, a digest of each run and of each batch that was timed."""

    spins: NDArray[np.uint32]
    digests: list[int]
    rounds: int
    stopwatch: Stopwatch


def run_problem(problem: Problem, *, repeats: int, seconds: float) -> Runs:
    """Anneal from one start at least `repeats` times and for `seconds`; each time once to look, and then to time it."""
    size = problem.key.size
    single = problem.key.one_replica
    start = (pack_sites if single else split_colours)(problem.spins).reshape(-1)
    bonds = to_device((pack_site_bonds if single else pack_bonds)(problem.lattice).reshape(-1))
    parameters = to_device(problem.parameters.reshape(-1))
    columns = start.size // (2 * size)
    spins: Any = poisoned(start.size)
    start_device = to_device(start)
    arguments = (spins, bonds, parameters, u32(size.bit_length() - 1))
    run_halves = _launcher(problem, arguments, places=start.size // 2)
    digests: list[int] = []
    stopwatch = Stopwatch()

    def anneal() -> None:
        # Where it is timed this lies inside: a copy of the spins, well below 1 % of the sweeps.
        spins.copy_to_device(start_device)
        run_halves(0, 2 * problem.key.sweeps)

    def digest() -> None:
        digests.append(device_digest(spins, rows=2 * size, columns=columns, stride=columns))

    for rounds in repetitions(repeats=repeats, seconds=seconds):  # noqa: B007  (the last one is told)
        anneal()
        digest()
        if stopwatch.time(anneal, reset=lambda: poison(spins)):
            digest()
    split = spins.copy_to_host().reshape(2, size, columns)
    final = join_colours(unpack_sites(split) if single else split)
    return Runs(spins=final, digests=digests, rounds=rounds, stopwatch=stopwatch)


def _launcher(problem: Problem, arguments: tuple[Any, ...], *, places: int) -> Callable[[int, int], None]:
    """Return the function that runs half-sweeps, of `places` words each, from one to another: in one launch if it can.

    GPUs that cannot let blocks wait for each other need a launch for each half-sweep of a lattice beyond one block's.
    """
    one_block = problem.key.size**2 <= _ONE_BLOCK_SITES
    grid_wide = not one_block and can_sync_grids()
    kernel = _kernel(problem, grid_wide=grid_wide)
    blocks, threads = min(max(1, places // _BLOCK_THREADS), _MOST_BLOCKS), _BLOCK_THREADS
    if one_block:
        blocks, threads = 1, _ONE_BLOCK_THREADS
    elif grid_wide:
        # Compiles, and does nothing else: only then it is known how many blocks find room at once.
        kernel[1, threads](*arguments, u32(0), u32(0))
        blocks = min(blocks, most_blocks(kernel, threads))

    def run_halves(first: int, last: int) -> None:
        at_once = last - first if one_block or grid_wide else 1
        for half in range(first, last, at_once):
            kernel[blocks, threads](*arguments, u32(half), u32(half + at_once))

    return run_halves


def _kernel(problem: Problem, *, grid_wide: bool) -> Kernel:
    if problem.key.one_replica:
        return single_kernel(grid_wide=grid_wide)
    return anneal_kernel(independent=problem.key.independent, grid_wide=grid_wide)
