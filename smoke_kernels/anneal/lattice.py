"""The planted problem: a 2D torus of +-J bonds built so that its ground state energy is exact.

Every bond lies in exactly one black plaquette (x + y even). A black plaquette with one antiferromagnetic bond has at
least one broken bond (energy -2), one without may have none (energy -4), and all spins up reaches both everywhere.
So the ground state energy is -2 x frustrated - 4 x unfrustrated. A random gauge then hides the all-up state without
changing any energy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from smoke_kernels.hashing import counter_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

REPLICAS: Final = 32
"""Replicas of the lattice: one in each bit of a spin word."""

# With all plaquettes frustrated almost every anneal ends in a ground state; with half of them hardly any does.
FRUSTRATED_OF_16: Final = 13

_STREAM_BOND: Final = 1
_STREAM_GAUGE: Final = 2
_STREAM_SPINS: Final = 3


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """Bonds of a (size, size) torus. True is antiferromagnetic; rows are y, columns x."""

    size: int
    right: NDArray[np.bool_]
    """(size, size): the bond from (x, y) to (x + 1, y)."""
    down: NDArray[np.bool_]
    """(size, size): the bond from (x, y) to (x, y + 1)."""
    ground_energy: int


def black_sites(size: int) -> NDArray[np.bool_]:
    """Return the (size, size) mask of sites with x + y even."""
    rows, columns = np.ogrid[:size, :size]
    return np.asarray((rows + columns) % 2 == 0)


def planted_lattice(size: int, seed: int) -> Lattice:
    """Build the lattice, `size` even; a site's random word decides whether, and by which bond, it is frustrated."""
    words = counter_words(size * size, seed=seed, stream=_STREAM_BOND).reshape(size, size)
    black = black_sites(size)
    frustrated = black & ((words >> np.uint32(26)) % np.uint32(16) < FRUSTRATED_OF_16)
    top, bottom, left, right_side = (frustrated & (words >> np.uint32(30) == side) for side in range(4))
    right = top | np.roll(bottom, 1, axis=0)
    down = left | np.roll(right_side, 1, axis=1)
    gauge = counter_words(size * size, seed=seed, stream=_STREAM_GAUGE).reshape(size, size) >> np.uint32(31) == 1
    right ^= gauge ^ np.roll(gauge, -1, axis=1)
    down ^= gauge ^ np.roll(gauge, -1, axis=0)
    energy = -4 * int(np.count_nonzero(black)) + 2 * int(np.count_nonzero(frustrated))
    return Lattice(size=size, right=right, down=down, ground_energy=energy)


def initial_spins(size: int, seed: int) -> NDArray[np.uint32]:
    """Return the (size, size) random spin words that every run starts from."""
    return counter_words(size * size, seed=seed, stream=_STREAM_SPINS).reshape(size, size)


def energies(lattice: Lattice, spins: NDArray[np.uint32], *, replicas: int = REPLICAS) -> NDArray[np.int64]:
    """Return the energies of the replicas, shape (replicas,), of (size, size) words: broken minus satisfied bonds."""
    broken_right = spins ^ np.roll(spins, -1, axis=1) ^ _all_bits(lattice.right)
    broken_down = spins ^ np.roll(spins, -1, axis=0) ^ _all_bits(lattice.down)
    broken = np.zeros(replicas, np.int64)
    for replica in range(replicas):
        bit = np.uint32(1 << replica)
        broken[replica] = np.count_nonzero(broken_right & bit) + np.count_nonzero(broken_down & bit)
    return 2 * broken - 2 * lattice.size**2


def _all_bits(bonds: NDArray[np.bool_]) -> NDArray[np.uint32]:
    words: NDArray[np.uint32] = np.where(bonds, np.uint32(0xFFFFFFFF), np.uint32(0))
    return words
