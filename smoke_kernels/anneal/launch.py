"""Run a problem on the device, as often as asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from smoke_kernels.anneal.kernel import anneal_kernel
from smoke_kernels.anneal.packing import join_colours, pack_bonds, split_colours
from smoke_kernels.anneal.single import pack_site_bonds, pack_sites, single_kernel, unpack_sites
from smoke_kernels.backend import SIMULATED, poisoned, to_device, u32
from smoke_kernels.hashing_device import device_digest
from smoke_kernels.timing import launch_seconds, repetitions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smoke_kernels.anneal.problem import Problem

# One block does all sweeps of so many sites in one launch; more sites need the whole device, and a launch a half-sweep.
_ONE_BLOCK_SITES: Final = 64 * 64
_ONE_BLOCK_THREADS: Final = 2 if SIMULATED else 1024
_BLOCK_THREADS: Final = 256
_MOST_BLOCKS: Final = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Runs:
    """What came out: the last run's (size, size) spins, every run's digest, the device seconds of all but the first."""

    spins: NDArray[np.uint32]
    digests: list[int]
    launches: list[float]


def run_problem(problem: Problem, *, repeats: int, seconds: float) -> Runs:
    """Anneal from one start at least `repeats` times and for `seconds`; the first run compiles and is not timed."""
    size = problem.key.size
    single = problem.key.one_replica
    kernel = single_kernel() if single else anneal_kernel(independent=problem.key.independent)
    start = (pack_sites if single else split_colours)(problem.spins).reshape(-1)
    bonds = to_device((pack_site_bonds if single else pack_bonds)(problem.lattice).reshape(-1))
    parameters = to_device(problem.parameters.reshape(-1))
    columns = start.size // (2 * size)
    spins: Any = poisoned(start.size)
    log2_size = u32(size.bit_length() - 1)
    halves = 2 * problem.key.sweeps
    digests: list[int] = []
    launches: list[float] = []

    def launch() -> None:
        if SIMULATED or size**2 <= _ONE_BLOCK_SITES:
            kernel[1, _ONE_BLOCK_THREADS](spins, bonds, parameters, log2_size, u32(0), u32(halves))
            return
        blocks = min(max(1, start.size // 2 // _BLOCK_THREADS), _MOST_BLOCKS)
        for half in range(halves):
            kernel[blocks, _BLOCK_THREADS](spins, bonds, parameters, log2_size, u32(half), u32(half + 1))

    for number in repetitions(repeats=repeats, seconds=seconds):
        spins.copy_to_device(start)
        launch_time = launch_seconds(launch)
        digests.append(device_digest(spins, rows=2 * size, columns=columns, stride=columns))
        if launch_time is not None and number > 0:
            launches.append(launch_time)
    split = spins.copy_to_host().reshape(2, size, columns)
    final = join_colours(unpack_sites(split) if single else split)
    return Runs(spins=final, digests=digests, launches=launches)
