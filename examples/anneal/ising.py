"""A spin glass of 8 x 8 spins with a planted ground state: what the smoke kernel `anneal` computes, as a model.

A chain has 32 replicas, one in each bit of a word, and a word for each site. A step is SWEEPS sweeps over a
checkerboard, in which each spin flips by Metropolis; all replicas of a site share a random number. So moves are
accepted there, and `acceptance_func` takes each. The energy is the mean of the replicas', and that of the ground state
is -70.
"""

import math

import numpy as np
from numba import cuda

dimensions = 1
precision = "float64"  # has the 32 bits of a word
# -- Globals
SIDE = 8
SITES = 64
SWEEPS = 8
HOTTEST = 3.0
COLDEST = 0.2
COOLING_STEPS = 50.0
WEYL = 0x9E3779B9
u32 = np.uint32
# Antiferromagnetic bonds: bit 8 y + x of rows 0 to 3, and of rows 4 to 7
RIGHT = (0x82306510, 0x380E0969)
DOWN = (0xF97BCCFE, 0x7B4D0FD9)


@cuda.jit(device=True)
def mix(word):
    word = u32(u32(word ^ u32(word >> u32(16))) * u32(0x7FEB352D))
    word = u32(u32(word ^ u32(word >> u32(15))) * u32(0x846CA68B))
    return u32(word ^ u32(word >> u32(16)))


@cuda.jit(device=True)
def all_bits(low, high, site):
    """All bits of a word, if the bond of a site is antiferromagnetic; else none."""
    half = u32(low) if site < 32 else u32(high)
    return u32(0xFFFFFFFF) if (half >> u32(site & 31)) & u32(1) else u32(0)


@cuda.jit(device=True)
def temperature(step):
    return max(COLDEST, HOTTEST * (1.0 - step / COOLING_STEPS))


# -- Globals


def empty_state():
    return [0.0] * SITES


def initialize(state, randoms):
    key = mix(u32(randoms[0] * 4294967296.0))
    for site in range(SITES):
        state[site] = float(mix(u32(u32(u32(site) * u32(WEYL)) ^ key)))


def generate_next(state, new_state, randoms, step):
    heat = temperature(step)
    one = u32(min(4294967295.0, 4294967296.0 * math.exp(-4.0 / heat)))  # to accept one broken bond
    none = u32(min(4294967295.0, 4294967296.0 * math.exp(-8.0 / heat)))
    key = u32(randoms[0] * 4294967296.0)
    for half in range(2 * SWEEPS):
        if half & 1 == 0:
            key = mix(u32(key ^ u32(half)))
        for place in range(SITES // 2):
            row = place >> 2
            column = ((place & 3) << 1) | ((row ^ half) & 1)
            site = row * SIDE + column
            left = row * SIDE + ((column - 1) & 7)
            up = ((row - 1) & 7) * SIDE + column
            spin = u32(new_state[site])
            a = u32(spin ^ u32(new_state[row * SIDE + ((column + 1) & 7)]) ^ all_bits(RIGHT[0], RIGHT[1], site))
            b = u32(spin ^ u32(new_state[left]) ^ all_bits(RIGHT[0], RIGHT[1], left))
            c = u32(spin ^ u32(new_state[((row + 1) & 7) * SIDE + column]) ^ all_bits(DOWN[0], DOWN[1], site))
            d = u32(spin ^ u32(new_state[up]) ^ all_bits(DOWN[0], DOWN[1], up))
            # A spin flips if two or more of its bonds are broken, or one or none and the random number says so
            random = mix(u32(u32(u32(site) * u32(WEYL)) ^ key))
            across = u32(a ^ b)
            along = u32(c ^ d)
            flips = u32(u32(a & b) | u32(c & d) | u32(across & along))
            if random < one:
                flips = u32(flips | u32(across ^ along))
            if random < none:
                flips = u32(0xFFFFFFFF)
            new_state[site] = float(u32(spin ^ flips))


def cool(initial_temp, old_temp, step):
    return initial_temp * temperature(step) / HOTTEST


def evaluate(state):
    broken = 0
    for site in range(SITES):
        row = site >> 3
        spin = u32(state[site])
        right = u32(state[row * SIDE + ((site + 1) & 7)])
        down = u32(state[((row + 1) & 7) * SIDE + (site & 7)])
        broken += cuda.popc(u32(spin ^ right ^ all_bits(RIGHT[0], RIGHT[1], site)))
        broken += cuda.popc(u32(spin ^ down ^ all_bits(DOWN[0], DOWN[1], site)))
    return 2.0 * broken / 32.0 - 2.0 * SITES


def acceptance_func(e_old, e_new, temp, rnd):
    return True
