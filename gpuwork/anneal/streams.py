"""Random streams: numba's xoroshiro128p, one for each chain, 2**64 numbers apart.

Chain i has stream i of the seed, whichever device and part of a run it is on: so no two chains share one, and the
result does not depend on how chains are divided. numba makes the streams one after the other; here it takes as many
steps as the number of the last chain has bits.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bits = list[int]  # a matrix of 128 x 128 bits: what each bit of a state becomes

STREAM: Final = np.dtype([("s0", np.uint64), ("s1", np.uint64)], align=True)
_WORD: Final = 2**64 - 1
_BITS: Final = 128
_JUMP: Final = 0xBEAC0467EBA5FACB | 0xD86B048B86AA9922 << 64


def next_state(state: tuple[int, int]) -> tuple[int, int]:
    """The state behind this one; the number between them is the sum of its words."""
    s0, s1 = state
    s1 ^= s0
    first = ((s0 << 55 | s0 >> 9) & _WORD) ^ s1 ^ (s1 << 14 & _WORD)
    return first, (s1 << 36 | s1 >> 28) & _WORD


def make_streams(seed: int, *, first: int, count: int) -> NDArray[np.void]:
    """The streams of chains `first` to `first + count - 1`, as numba's generator takes them."""
    chains = np.arange(first, first + count, dtype=np.uint64)
    low = np.full(count, _begin(seed), np.uint64)
    high = low.copy()
    for bit in range(int(first + count - 1).bit_length()):
        moved = (chains >> np.uint64(bit)) & np.uint64(1) == 1
        if moved.any():
            low[moved], high[moved] = _apply(_jump(bit), low[moved], high[moved])
    streams = np.empty(count, STREAM)
    streams["s0"], streams["s1"] = low, high
    return streams


def _begin(seed: int) -> int:
    """SplitMix64 of the seed: both words of the first stream."""
    word = (seed + 0x9E3779B97F4A7C15) & _WORD
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
    return word ^ word >> 31


@cache
def _jump(power: int) -> Bits:
    """The matrix that moves a state by 2**power streams."""
    if power:
        half = _jump(power - 1)
        return [_times(half, column) for column in half]
    return [_one_jump(1 << bit) for bit in range(_BITS)]


def _one_jump(whole: int) -> int:
    """2**64 numbers further, as numba does it."""
    state, reached = (whole & _WORD, whole >> 64), 0
    for bit in range(_BITS):
        if _JUMP >> bit & 1:
            reached ^= state[0] | state[1] << 64
        state = next_state(state)
    return reached


def _times(matrix: Bits, vector: int) -> int:
    found = 0
    while vector:
        lowest = vector & -vector
        found ^= matrix[lowest.bit_length() - 1]
        vector ^= lowest
    return found


def _apply(
    matrix: Bits, low: NDArray[np.uint64], high: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    new_low, new_high = np.zeros_like(low), np.zeros_like(high)
    for bit, column in enumerate(matrix):
        words, shift = (low, bit) if bit < 64 else (high, bit - 64)  # noqa: PLR2004  (bits of a word)
        mask = np.uint64(0) - (words >> np.uint64(shift) & np.uint64(1))
        new_low ^= mask & np.uint64(column & _WORD)
        new_high ^= mask & np.uint64(column >> 64)
    return new_low, new_high
