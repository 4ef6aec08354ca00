"""The anneal kernel: 32 replicas in each word, checkerboard Metropolis with bitwise adders, no floating point."""

from __future__ import annotations

from smoke_kernels.anneal.packing import BOND_DOWN, BOND_LEFT, BOND_RIGHT, BOND_UP
from smoke_kernels.backend import DeviceArray, DeviceWord, cuda, device_function, u32
from smoke_kernels.hashing import WEYL
from smoke_kernels.hashing_device import mix_word


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


def anneal_source(
    spins: DeviceArray, bonds: DeviceArray, parameters: DeviceArray, log2_size: int, first_half: int, last_half: int
) -> None:
    """Run half-sweeps first_half .. last_half - 1 (even: black sites, odd: white) on a lattice of 2**log2_size squared.

    Blocks do not wait for each other: a launch of several blocks runs one half-sweep, a launch of one block any number.
    `spins` and `bonds` are flat, as packing.py lays them out; `parameters` is flat, three words a sweep.
    """
    log2_row = u32(log2_size - 1)
    row_words = u32(u32(1) << log2_row)
    sites = u32(row_words << log2_size)
    last_row = u32(u32(u32(1) << log2_size) - u32(1))
    last_column = u32(row_words - u32(1))
    first = u32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    stride = u32(cuda.blockDim.x * cuda.gridDim.x)
    for half in range(first_half, last_half):
        colour = u32(half & 1)
        own = u32(colour * sites)
        other = u32(sites - own)
        sweep = u32(half >> 1)
        accept_one_broken = u32(parameters[u32(u32(3) * sweep)])
        accept_none_broken = u32(parameters[u32(u32(3) * sweep + u32(1))])
        key = u32(parameters[u32(u32(3) * sweep + u32(2))])
        for place in range(first, sites, stride):
            row = u32(place >> log2_row)
            column = u32(place & last_column)
            odd = u32(u32(row + colour) & 1)
            row_start = u32(other + u32(row << log2_row))
            spin = u32(spins[u32(own + place)])
            site_bonds = u32(bonds[u32(own + place)])
            right = u32(spins[u32(row_start + u32(u32(column + odd) & last_column))])
            left = u32(spins[u32(row_start + u32(u32(column + odd - u32(1)) & last_column))])
            down = u32(spins[u32(other + u32(u32(u32(row + u32(1)) & last_row) << log2_row) + column)])
            up = u32(spins[u32(other + u32(u32(u32(row - u32(1)) & last_row) << log2_row) + column)])

            broken_right = broken_bond(spin, right, site_bonds, _SHIFT_RIGHT)
            broken_left = broken_bond(spin, left, site_bonds, _SHIFT_LEFT)
            broken_down = broken_bond(spin, down, site_bonds, _SHIFT_DOWN)
            broken_up = broken_bond(spin, up, site_bonds, _SHIFT_UP)
            odd_across = u32(broken_right ^ broken_left)
            odd_along = u32(broken_down ^ broken_up)
            two_or_more = u32((broken_right & broken_left) | (broken_down & broken_up) | (odd_across & odd_along))

            site = u32(u32(row << log2_size) + u32(column << 1) + odd)
            random = mix_word(u32(u32(site * u32(WEYL)) ^ key))
            flips = u32(two_or_more | (u32(odd_across ^ odd_along) & all_bits(random < accept_one_broken)))
            spins[u32(own + place)] = u32(spin ^ u32(flips | all_bits(random < accept_none_broken)))
        cuda.syncthreads()


anneal_kernel = cuda.jit(anneal_source)
