"""Run a problem on the device, as often as asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smoke_kernels.anneal.kernel import anneal_kernel
from smoke_kernels.anneal.packing import join_colours, pack_bonds, split_colours
from smoke_kernels.anneal.single import pack_site_bonds, pack_sites, single_kernel, unpack_sites
from smoke_kernels.backend import SIMULATED, poison, poisoned, to_device, u32
from smoke_kernels.grid import can_sync_grids, most_blocks
from smoke_kernels.hashing_device import device_digests
from smoke_kernels.multiprocessors import count_multiprocessors, owners_of
from smoke_kernels.timing import Stopwatch, repetitions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoke_kernels.anneal.problem import AnnealProblem
    from smoke_kernels.backend import DeviceArray, Kernel
    from smoke_kernels.multiprocessors import Census

_ONE_BLOCK_THREADS: Final = 2 if SIMULATED else 1024
_BLOCK_THREADS: Final = 2 if SIMULATED else 256
_MOST_BLOCKS: Final = 1 << 16
# No multiprocessor holds more than 2048 threads: so many blocks of 1024 leave none of them without one.
_BLOCKS_ON_ONE: Final = 2
_WORD: Final = 0xFFFFFFFF
# In one launch. The driver of a GPU that also draws a desktop ends a launch that takes seconds.
_MOST_HALVES: Final = 4096


@dataclass(frozen=True, kw_only=True)
class Runs:
    """What came out.

    Attributes:
        spins: The last run's, of the first copy: (size, size) words.
        digests: Of every copy at the end of every run, and of every batch that was timed.
        traces: Of every copy of every run, where the problem is traced.
        rounds: How often the problem was run to look at it.
        copies: How many lattices each launch anneals.
    """

    spins: NDArray[np.uint32]
    digests: list[int]
    traces: list[int]
    rounds: int
    copies: int
    stopwatch: Stopwatch


def default_copies(problem: AnnealProblem) -> int:
    """Return how many copies give every multiprocessor one: where a block holds a lattice, enough to fill the GPU."""
    present = count_multiprocessors()
    return 1 if present is None or not problem.key.in_one_block else present * _BLOCKS_ON_ONE


def run_problem(problem: AnnealProblem, *, repeats: int, seconds: float, census: Census, copies: int = 1) -> Runs:
    """Anneal from one start at least `repeats` times and for `seconds`; each time once to look, and then to time it."""
    size = problem.key.size
    single = problem.key.one_replica
    start = (pack_sites if single else split_colours)(problem.spins).reshape(-1)
    columns = start.size // (2 * size)
    start_device = to_device(np.tile(start, copies))
    bonds = to_device((pack_site_bonds if single else pack_bonds)(problem.lattice).reshape(-1))
    spins: Any = poisoned(copies * start.size)
    launches = _Launches(problem, (spins, bonds), places=start.size // 2, copies=copies)
    digests: list[int] = []
    traces: list[int] = []
    stopwatch = Stopwatch()

    def anneal() -> None:
        # Where it is timed this lies inside: a copy of the spins, well below 1 % of the sweeps.
        spins.copy_to_device(start_device)
        launches.run()

    def look() -> list[int]:
        return device_digests(spins, copies=copies, rows=2 * size, columns=columns, stride=columns)

    for rounds in repetitions(repeats=repeats, seconds=seconds):  # noqa: B007  (the last one is told)
        anneal()
        found, found_traces, owners = look(), launches.traces(), launches.owners()
        digests += found
        traces += found_traces
        census.add(owners)
        if problem.key.in_one_block:
            golden = (problem.golden, problem.golden_trace)
            each = enumerate(zip(found, found_traces, strict=True))
            census.blame(owners, (copy for copy, result in each if result != golden))
        if stopwatch.time(anneal, reset=lambda: poison(spins)):
            digests += look()
    split = spins.copy_to_host()[: start.size].reshape(2, size, columns)
    return Runs(
        spins=join_colours(unpack_sites(split) if single else split),
        digests=digests,
        traces=traces,
        rounds=rounds,
        copies=copies,
        stopwatch=stopwatch,
    )


class _Launches:
    """Runs all half-sweeps of a problem, of `places` words each: in one launch if the GPU can.

    There is a block for each copy of a lattice that fits into one. GPUs that cannot let blocks wait for each other need
    a launch for each half-sweep of a larger one.
    """

    def __init__(
        self, problem: AnnealProblem, lattice: tuple[DeviceArray, DeviceArray], *, places: int, copies: int
    ) -> None:
        self._copies = copies if problem.key.in_one_block else 0
        self._grid_wide = not problem.key.in_one_block and can_sync_grids()
        self._kernel = _kernel(problem, grid_wide=self._grid_wide)
        self._halves = 2 * problem.key.sweeps
        self._words = (u32(problem.key.size.bit_length() - 1), u32(2 * places if self._copies else 0))
        self._threads = _ONE_BLOCK_THREADS if self._copies else _BLOCK_THREADS
        self._blocks = self._copies or min(max(1, places // self._threads), _MOST_BLOCKS)
        self._arrays = (*lattice, to_device(problem.parameters.reshape(-1)))
        if self._grid_wide:
            # Compiles, and does nothing else: only then it is known how many blocks find room at once.
            self._kernel[1, self._threads](*self._arrays, owners_of(1), poisoned(1), *self._words, u32(0), u32(0))
            self._blocks = min(self._blocks, most_blocks(self._kernel, self._threads))
        self._owners = owners_of(self._blocks)
        self._traces: Any = poisoned(1 if self._grid_wide else self._blocks * self._threads)

    def run(self) -> None:
        """Anneal from the spins that are there."""
        at_once = _MOST_HALVES if self._copies or self._grid_wide else 1
        for half in range(0, self._halves, at_once):
            last = min(half + at_once, self._halves)
            self._kernel[self._blocks, self._threads](
                *self._arrays, self._owners, self._traces, *self._words, u32(half), u32(last)
            )

    def owners(self) -> NDArray[np.uint32]:
        """Return which multiprocessor ran each block."""
        host: NDArray[np.uint32] = self._owners.copy_to_host()
        return host

    def traces(self) -> list[int]:
        """Return the trace of each copy; none of a lattice that blocks share."""
        threads = self._traces.copy_to_host().reshape(max(1, self._copies), -1)
        return [int(total) & _WORD for total in threads.sum(axis=1, dtype=np.uint64)] if self._copies else []


def _kernel(problem: AnnealProblem, *, grid_wide: bool) -> Kernel:
    if problem.key.one_replica:
        return single_kernel(grid_wide=grid_wide)
    return anneal_kernel(independent=problem.key.independent, grid_wide=grid_wide)
