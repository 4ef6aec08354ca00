"""An anneal to run: its lattice, its start, its schedule, and what must come out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from smoke_kernels.anneal.lattice import REPLICAS, energies, initial_spins, planted_lattice
from smoke_kernels.anneal.packing import split_colours
from smoke_kernels.anneal.reference import anneal_reference
from smoke_kernels.anneal.schedule import sweep_parameters
from smoke_kernels.anneal.single import SMALLEST_SIZE as SMALLEST_SINGLE
from smoke_kernels.anneal.single import pack_sites
from smoke_kernels.anneal.trace import traced_reference
from smoke_kernels.errors import UsageError
from smoke_kernels.golden import find_golden
from smoke_kernels.hashing import digest, render_digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smoke_kernels.anneal.lattice import Lattice
    from smoke_kernels.result import GoldenSource

SMALLEST_SIZE: Final = 8
LARGEST_SIZE: Final = 8192
ONE_BLOCK_SITES: Final = 64 * 64


@dataclass(frozen=True, kw_only=True)
class ProblemKey:
    """What names a problem."""

    size: int
    sweeps: int
    seed: int
    independent: bool = False
    one_replica: bool = False

    @property
    def replicas(self) -> int:
        """How many there are; one is that of bit 0 of the words."""
        return 1 if self.one_replica else REPLICAS

    @property
    def in_one_block(self) -> bool:
        """Whether a block of the GPU holds the lattice: there are copies of it then, and each is traced."""
        return self.size**2 <= ONE_BLOCK_SITES


@dataclass(frozen=True, kw_only=True)
class AnnealProblem:
    """A problem, ready to run. `spins` are (size, size) words, `parameters` (sweeps, 3)."""

    key: ProblemKey
    lattice: Lattice
    spins: NDArray[np.uint32]
    parameters: NDArray[np.uint32]
    golden: int
    golden_trace: int | None
    """Of a lattice that fits into one block."""
    golden_best_energy: int
    golden_source: GoldenSource


@lru_cache(maxsize=2)
def build_problem(key: ProblemKey) -> AnnealProblem:
    """Make a problem and what must come out: from the shipped table, else by the numpy reference.

    Kept for the next GPU, which gets the same one.

    Raises:
        UsageError: the size is not one this kernel can take.
    """
    smallest = SMALLEST_SINGLE if key.one_replica else SMALLEST_SIZE
    if not smallest <= key.size <= LARGEST_SIZE or key.size & (key.size - 1):
        raise UsageError(
            f"anneal does not support size {key.size}",
            evidence=f"sizes are powers of two from {smallest} to {LARGEST_SIZE}",
            remedy="python3 -m smoke_kernels anneal --size 64",
        )
    lattice = planted_lattice(key.size, key.seed)
    spins = initial_spins(key.size, key.seed)
    parameters = sweep_parameters(key.sweeps, key.seed)
    name = {"independent": key.independent, "one_replica": key.one_replica}
    entry = find_golden("anneal", seed=key.seed, size=key.size, sweeps=key.sweeps, **name)
    source: GoldenSource = "shipped"
    if entry is None:
        source = "computed"
        entry = golden_values(key, lattice, spins, parameters)
    return AnnealProblem(
        key=key,
        lattice=lattice,
        spins=spins,
        parameters=parameters,
        golden=int(entry["digest"], 16),
        golden_trace=None if entry["trace"] is None else int(entry["trace"], 16),
        golden_best_energy=int(entry["best_energy"]),
        golden_source=source,
    )


def golden_values(
    key: ProblemKey, lattice: Lattice, spins: NDArray[np.uint32], parameters: NDArray[np.uint32]
) -> dict[str, Any]:
    """Return what must come out of (size, size) spin words, as the golden table holds it, by the numpy reference."""
    pack = pack_sites if key.one_replica else split_colours
    trace = None
    if key.in_one_block:
        spins, number = traced_reference(lattice, spins, parameters, independent=key.independent, pack=pack)
        trace = f"{number:08x}"
    else:
        spins = anneal_reference(lattice, spins, parameters, independent=key.independent)
    best = int(energies(lattice, spins, replicas=key.replicas).min())
    return {"digest": render_digest(digest(pack(spins))), "trace": trace, "best_energy": best}
