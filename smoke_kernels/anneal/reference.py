"""The anneal in plain numpy on the whole lattice: what every device has to reproduce bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoke_kernels.anneal.lattice import black_sites
from smoke_kernels.hashing import WEYL, mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoke_kernels.anneal.lattice import Lattice


def anneal_reference(lattice: Lattice, spins: NDArray[np.uint32], parameters: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the (size, size) spin words after one Metropolis sweep for every row of `parameters`, shape (sweeps, 3)."""
    ones, zeros = np.uint32(0xFFFFFFFF), np.uint32(0)
    right = np.where(lattice.right, ones, zeros)
    down = np.where(lattice.down, ones, zeros)
    left, up = np.roll(right, 1, axis=1), np.roll(down, 1, axis=0)
    black = black_sites(lattice.size)
    counters = np.arange(lattice.size**2, dtype=np.uint32).reshape(lattice.size, lattice.size) * np.uint32(WEYL)
    spins = spins.copy()
    for accept_one_broken, accept_none_broken, key in parameters:
        random = mix(counters ^ key)
        for colour in (black, ~black):
            broken_right = spins ^ np.roll(spins, -1, axis=1) ^ right
            broken_left = spins ^ np.roll(spins, 1, axis=1) ^ left
            broken_down = spins ^ np.roll(spins, -1, axis=0) ^ down
            broken_up = spins ^ np.roll(spins, 1, axis=0) ^ up
            odd_across, both_across = broken_right ^ broken_left, broken_right & broken_left
            odd_along, both_along = broken_down ^ broken_up, broken_down & broken_up
            one_or_three = odd_across ^ odd_along
            two_or_more = both_across | both_along | (odd_across & odd_along)
            flips = two_or_more | (one_or_three & np.where(random < accept_one_broken, ones, zeros))
            flips |= np.where(random < accept_none_broken, ones, zeros)
            spins ^= np.where(colour, flips, zeros)
    return spins
