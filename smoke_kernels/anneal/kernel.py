"""The anneal kernel: 32 replicas in each word, checkerboard Metropolis with bitwise adders, no floating point."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from smoke_kernels.anneal.lattice import REPLICAS
from smoke_kernels.anneal.packing import BOND_DOWN, BOND_LEFT, BOND_RIGHT, BOND_UP
from smoke_kernels.anneal.schedule import REPLICA_STEP
from smoke_kernels.backend import DeviceArray, cuda, device_function, u32
from smoke_kernels.grid import sync_grid
from smoke_kernels.hashing import WEYL
from smoke_kernels.hashing_device import mix_word
from smoke_kernels.multiprocessors import own_multiprocessor

if TYPE_CHECKING:
    from smoke_kernels.backend import DeviceWord, Kernel


AnnealSource = Callable[[DeviceArray, DeviceArray, DeviceArray, DeviceArray, DeviceArray, int, int, int, int], None]


def _all_bits(flag: DeviceWord) -> DeviceWord:
    return u32(u32(0) - u32(flag))


all_bits = device_function(_all_bits)


def _broken(spin: DeviceWord, neighbour: DeviceWord, bonds: DeviceWord, shift: int) -> DeviceWord:
    return u32(spin ^ neighbour ^ all_bits((bonds >> shift) & 1))


broken_bond = device_function(_broken)

_SHIFT_RIGHT = BOND_RIGHT.bit_length() - 1
_SHIFT_LEFT = BOND_LEFT.bit_length() - 1
_SHIFT_DOWN = BOND_DOWN.bit_length() - 1
_SHIFT_UP = BOND_UP.bit_length() - 1


def _flips(
    right: DeviceWord, left: DeviceWord, down: DeviceWord, up: DeviceWord, one: DeviceWord, none: DeviceWord
) -> DeviceWord:
    """Return which spins flip, from their broken bonds and from whether one or none broken is accepted."""
    odd_across = u32(right ^ left)
    odd_along = u32(down ^ up)
    two_or_more = u32((right & left) | (down & up) | (odd_across & odd_along))
    return u32(two_or_more | (u32(odd_across ^ odd_along) & one) | none)


decide_flips = device_function(_flips)


def _accept_shared(
    counter: DeviceWord, accept_one_broken: DeviceWord, accept_none_broken: DeviceWord
) -> tuple[DeviceWord, DeviceWord]:
    """Return both acceptances as words: one random number decides for all replicas."""
    random = mix_word(counter)
    return all_bits(random < accept_one_broken), all_bits(random < accept_none_broken)


def _accept_independent(
    counter: DeviceWord, accept_one_broken: DeviceWord, accept_none_broken: DeviceWord
) -> tuple[DeviceWord, DeviceWord]:
    """Return both acceptances as words: a random number for every replica."""
    one_broken = u32(0)
    none_broken = u32(0)
    for replica in range(REPLICAS):
        random = mix_word(u32(counter + u32(replica * REPLICA_STEP)))
        one_broken = u32(one_broken | u32(u32(random < accept_one_broken) << u32(replica)))
        none_broken = u32(none_broken | u32(u32(random < accept_none_broken) << u32(replica)))
    return one_broken, none_broken


def anneal_source(*, independent: bool, grid_wide: bool) -> AnnealSource:  # noqa: PLR0915  (the kernel)
    """Return the kernel's source, with one random number for all replicas of a site or one for each.

    With `grid_wide` all blocks wait for each other after every half-sweep, else each block for its own threads only:
    such blocks have lattices of their own, `copy_words` apart, or share one (`copy_words` 0) for a single half-sweep.
    They trace all that they do, at the price of one more hash: what grid-wide launches do is measured.
    """
    accept = device_function(_accept_independent if independent else _accept_shared)

    def anneal(  # noqa: PLR0913, PLR0915, PLR0917  (arrays and words of a launch)
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
        # Half-sweeps first_half .. last_half - 1 (even: black sites, odd: white) of a lattice of 2**log2_size squared.
        # Loops with a stride are written with while: range() would divide to count its steps, in every thread.
        log2_row = u32(log2_size - 1)
        row_words = u32(u32(1) << log2_row)
        sites = u32(row_words << log2_size)
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
            black_or_white = u32(colour * sites)
            own = u32(copy + black_or_white)
            other = u32(u32(copy + sites) - black_or_white)
            sweep = u32(u32(3) * u32(half >> 1))
            accept_one_broken = u32(parameters[sweep])
            accept_none_broken = u32(parameters[u32(sweep + u32(1))])
            key = u32(parameters[u32(sweep + u32(2))])
            place = first
            while place < sites:
                row = u32(place >> log2_row)
                column = u32(place & last_column)
                odd = u32(u32(row + colour) & 1)
                row_start = u32(other + u32(row << log2_row))
                spin = u32(spins[u32(own + place)])
                site_bonds = u32(bonds[u32(black_or_white + place)])
                right = u32(spins[u32(row_start + u32(u32(column + odd) & last_column))])
                left = u32(spins[u32(row_start + u32(u32(column + odd - u32(1)) & last_column))])
                down = u32(spins[u32(other + u32(u32(u32(row + u32(1)) & last_row) << log2_row) + column)])
                up = u32(spins[u32(other + u32(u32(u32(row - u32(1)) & last_row) << log2_row) + column)])

                broken_right = broken_bond(spin, right, site_bonds, _SHIFT_RIGHT)
                broken_left = broken_bond(spin, left, site_bonds, _SHIFT_LEFT)
                broken_down = broken_bond(spin, down, site_bonds, _SHIFT_DOWN)
                broken_up = broken_bond(spin, up, site_bonds, _SHIFT_UP)
                site = u32(u32(row << log2_size) + u32(column << 1) + odd)
                one_broken, none_broken = accept(
                    u32(u32(site * u32(WEYL)) ^ key), accept_one_broken, accept_none_broken
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

    return anneal


@cache
def anneal_kernel(*, independent: bool, grid_wide: bool) -> Kernel:
    """Return the compiled-on-first-launch kernel.

    Its arguments are flat device arrays, spins and bonds as packing.py lays them out, three parameters a sweep, a word
    a block for its multiprocessor and a word a thread for its trace (trace.py); then log2 of the lattice's side, the
    words from one copy of it to the next, the first half-sweep and the one to stop before.
    """
    return cuda.jit(anneal_source(independent=independent, grid_wide=grid_wide))
