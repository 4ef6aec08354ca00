"""The anneal in plain numpy on the whole lattice: what every device has to reproduce bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from smoke_kernels.anneal.lattice import REPLICAS, black_sites
from smoke_kernels.anneal.schedule import REPLICA_STEP
from smoke_kernels.hashing import WEYL, mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoke_kernels.anneal.lattice import Lattice


ONES: Final = np.uint32(0xFFFFFFFF)
ZEROS: Final = np.uint32(0)


def anneal_reference(
    lattice: Lattice, spins: NDArray[np.uint32], parameters: NDArray[np.uint32], *, independent: bool = False
) -> NDArray[np.uint32]:
    """Return the (size, size) spin words after a Metropolis sweep for every row of `parameters`, shape (sweeps, 3)."""
    right, down = np.where(lattice.right, ONES, ZEROS), np.where(lattice.down, ONES, ZEROS)
    left, up = np.roll(right, 1, axis=1), np.roll(down, 1, axis=0)
    black = black_sites(lattice.size)
    counters = np.arange(lattice.size**2, dtype=np.uint32).reshape(lattice.size, lattice.size) * np.uint32(WEYL)
    accept = _accept_independent if independent else _accept_shared
    spins = spins.copy()
    for threshold_one_broken, threshold_none_broken, key in parameters:
        accept_one_broken = accept(counters ^ key, threshold_one_broken)
        accept_none_broken = accept(counters ^ key, threshold_none_broken)
        for colour in (black, ~black):
            broken_right = spins ^ np.roll(spins, -1, axis=1) ^ right
            broken_left = spins ^ np.roll(spins, 1, axis=1) ^ left
            broken_down = spins ^ np.roll(spins, -1, axis=0) ^ down
            broken_up = spins ^ np.roll(spins, 1, axis=0) ^ up
            odd_across, both_across = broken_right ^ broken_left, broken_right & broken_left
            odd_along, both_along = broken_down ^ broken_up, broken_down & broken_up
            one_or_three = odd_across ^ odd_along
            two_or_more = both_across | both_along | (odd_across & odd_along)
            flips = two_or_more | (one_or_three & accept_one_broken) | accept_none_broken
            spins ^= np.where(colour, flips, ZEROS)
    return spins


def _accept_shared(counters: NDArray[np.uint32], threshold: np.uint32) -> NDArray[np.uint32]:
    """Return all bits set where the site's random number is below the threshold."""
    accepted: NDArray[np.uint32] = np.where(mix(counters) < threshold, ONES, ZEROS)
    return accepted


def _accept_independent(counters: NDArray[np.uint32], threshold: np.uint32) -> NDArray[np.uint32]:
    """Return the bits of those replicas whose own random number is below the threshold."""
    accepted = np.zeros_like(counters)
    for replica in range(REPLICAS):
        step = np.uint32(replica * REPLICA_STEP & 0xFFFFFFFF)
        accepted |= (mix(counters + step) < threshold).astype(np.uint32) << np.uint32(replica)
    return accepted
