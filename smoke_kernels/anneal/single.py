"""The anneal of one replica: 32 neighbouring sites of one colour in each word, and a random number for every spin.

With shared random numbers every replica of the 32-replica kernel gets one for each spin, so this one walks the very
trajectory of that kernel's replica 0: numpy's reference for the one holds for the other.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from smoke_kernels.anneal.kernel import all_bits, decide_flips
from smoke_kernels.anneal.packing import BOND_DOWN, BOND_LEFT, BOND_RIGHT, BOND_UP, pack_bonds, split_colours
from smoke_kernels.backend import cuda, device_function, u32
from smoke_kernels.grid import sync_grid
from smoke_kernels.hashing import WEYL
from smoke_kernels.hashing_device import mix_word
from smoke_kernels.multiprocessors import own_multiprocessor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoke_kernels.anneal.kernel import AnnealSource
    from smoke_kernels.anneal.lattice import Lattice
    from smoke_kernels.backend import DeviceArray, DeviceWord, Kernel

SITES: Final = 32
"""Sites of one colour in each word; the sites between them, of the other colour, are in another."""

SMALLEST_SIZE: Final = 2 * SITES

_SITE_STEP: Final = 2 * WEYL & 0xFFFFFFFF  # from one site of a colour to the next


def pack_sites(spins: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return bit 0 of (size, size) words as (2, size, size / 64) words: bit b of word w is column 32 w + b."""
    return _pack(split_colours(spins))


def unpack_sites(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return (2, size, size / 2) words of 0 and 1: the inverse of the packing of a colour's columns."""
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").astype(np.uint32)


def pack_site_bonds(lattice: Lattice) -> NDArray[np.uint32]:
    """Return the bonds right, left, down and up of every site, shape (4, 2, size, size / 64)."""
    bonds = pack_bonds(lattice)
    return np.stack(
        [_pack((bonds & np.uint8(bond)) // np.uint8(bond)) for bond in (BOND_RIGHT, BOND_LEFT, BOND_DOWN, BOND_UP)]
    )


def _pack(split: NDArray[np.uint32] | NDArray[np.uint8]) -> NDArray[np.uint32]:
    return np.packbits((split & 1).astype(np.uint8), axis=-1, bitorder="little").view(np.uint32)


def _accept(
    counter: DeviceWord, key: DeviceWord, accept_one_broken: DeviceWord, accept_none_broken: DeviceWord
) -> tuple[DeviceWord, DeviceWord]:
    """Return both acceptances as words: a random number for every site, `counter` being that of the first."""
    one_broken = u32(0)
    none_broken = u32(0)
    for site in range(SITES):
        random = mix_word(u32(u32(counter + u32(site * _SITE_STEP & 0xFFFFFFFF)) ^ key))
        one_broken = u32(one_broken | u32(u32(random < accept_one_broken) << u32(site)))
        none_broken = u32(none_broken | u32(u32(random < accept_none_broken) << u32(site)))
    return one_broken, none_broken


accept_sites = device_function(_accept)


def single_source(*, grid_wide: bool) -> AnnealSource:  # noqa: PLR0915  (the kernel)
    """Return the kernel's source; `grid_wide` as of the 32-replica kernel."""

    def single(  # noqa: PLR0913, PLR0915, PLR0917  (arrays and words of a launch)
        spins: DeviceArray,
        bonds: DeviceArray,
        parameters: DeviceArray,
        owners: DeviceArray,
        traces: DeviceArray,
        log2_size: int,
        copy_words: int,
        first_half: int,
        last_half: int,
    ) -> None:
        # Half-sweeps as the 32-replica kernel runs them, of a lattice of 2**log2_size squared, at least 64.
        log2_row = u32(log2_size - 6)
        row_words = u32(u32(1) << log2_row)
        words = u32(row_words << log2_size)
        last_row = u32(u32(u32(1) << log2_size) - u32(1))
        last_column = u32(row_words - u32(1))
        first = u32(cuda.threadIdx.x)
        stride = u32(cuda.blockDim.x)
        if first == 0:
            owners[cuda.blockIdx.x] = own_multiprocessor()
        own_trace = u32(u32(u32(cuda.blockIdx.x) * stride) + first)
        trace = u32(0)
        if first_half and not grid_wide:
            trace = u32(traces[own_trace])
        copy = u32(0) if grid_wide else u32(u32(cuda.blockIdx.x) * copy_words)
        if grid_wide or copy_words == 0:
            first = u32(u32(u32(cuda.blockIdx.x) * stride) + first)
            stride = u32(stride * u32(cuda.gridDim.x))
        for half in range(first_half, last_half):
            colour = u32(half & 1)
            black_or_white = u32(colour * words)
            own = u32(copy + black_or_white)
            other = u32(u32(copy + words) - black_or_white)
            sweep = u32(u32(3) * u32(half >> 1))
            accept_one_broken = u32(parameters[sweep])
            accept_none_broken = u32(parameters[u32(sweep + u32(1))])
            key = u32(parameters[u32(sweep + u32(2))])
            place = first
            while place < words:
                row = u32(place >> log2_row)
                column = u32(place & last_column)
                odd = u32(u32(row + colour) & 1)
                row_start = u32(other + u32(row << log2_row))
                spin = u32(spins[u32(own + place)])
                here = u32(spins[u32(row_start + column)])
                # In an odd row the site at a bit lies between the other colour's sites at that bit and the next one, in
                # an even row between those at the one before and that bit.
                side = u32(spins[u32(row_start + u32(u32(column + odd + odd - u32(1)) & last_column))])
                after = u32(u32(here >> u32(1)) | u32(side << u32(31)))
                before = u32(u32(here << u32(1)) | u32(side >> u32(31)))
                is_odd = all_bits(odd)
                right = u32((after & is_odd) | (here & u32(~is_odd)))
                left = u32((here & is_odd) | (before & u32(~is_odd)))
                down = u32(spins[u32(other + u32(u32(u32(row + u32(1)) & last_row) << log2_row) + column)])
                up = u32(spins[u32(other + u32(u32(u32(row - u32(1)) & last_row) << log2_row) + column)])
                bond = u32(black_or_white + place)
                pair = u32(words + words)
                broken_right = u32(spin ^ right ^ u32(bonds[bond]))
                broken_left = u32(spin ^ left ^ u32(bonds[u32(bond + pair)]))
                broken_down = u32(spin ^ down ^ u32(bonds[u32(bond + pair + pair)]))
                broken_up = u32(spin ^ up ^ u32(bonds[u32(bond + pair + pair + pair)]))
                site = u32(u32(row << log2_size) + u32(column << 6) + odd)
                one_broken, none_broken = accept_sites(
                    u32(site * u32(WEYL)), key, accept_one_broken, accept_none_broken
                )
                if not grid_wide:
                    trace = u32(trace + mix_word(u32(spin ^ mix_word(u32(u32(site * u32(WEYL)) ^ key)))))
                flips = decide_flips(broken_right, broken_left, broken_down, broken_up, one_broken, none_broken)
                spins[u32(own + place)] = u32(spin ^ flips)
                place = u32(place + stride)
            if grid_wide:
                sync_grid()
            else:
                cuda.syncthreads()
        if not grid_wide:
            traces[own_trace] = trace

    return single


@cache
def single_kernel(*, grid_wide: bool) -> Kernel:
    """Return the compiled-on-first-launch kernel; arguments as the 32-replica kernel's, in this module's packing."""
    return cuda.jit(single_source(grid_wide=grid_wide))
