"""The device's layout: black sites first, then white, each colour (size, size / 2) in row order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoke_kernels.anneal.lattice import Lattice

BOND_RIGHT = 1
BOND_LEFT = 2
BOND_DOWN = 4
BOND_UP = 8


def split_colours(sites: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return (2, size, size / 2) words, black and white, from (size, size) words."""
    size = sites.shape[0]
    split = np.empty((2, size, size // 2), sites.dtype)
    for colour in range(2):
        for parity in range(2):
            split[colour, parity::2] = sites[parity::2, (colour + parity) % 2 :: 2]
    return split


def join_colours(split: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return (size, size) words from (2, size, size / 2): the inverse of `split_colours`."""
    size = split.shape[1]
    sites = np.empty((size, size), split.dtype)
    for colour in range(2):
        for parity in range(2):
            sites[parity::2, (colour + parity) % 2 :: 2] = split[colour, parity::2]
    return sites


def pack_bonds(lattice: Lattice) -> NDArray[np.uint8]:
    """Return the four bonds of every site as bits, shape (2, size, size / 2)."""
    bonds = lattice.right.astype(np.uint32) * BOND_RIGHT
    bonds |= np.roll(lattice.right, 1, axis=1) * np.uint32(BOND_LEFT)
    bonds |= lattice.down * np.uint32(BOND_DOWN)
    bonds |= np.roll(lattice.down, 1, axis=0) * np.uint32(BOND_UP)
    return split_colours(bonds).astype(np.uint8)
