"""Hashes and digests in 32-bit integers: the same on numpy, in the simulator and on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The finaliser of MurmurHash3 (Austin Appleby, public domain): a bijection of 32-bit words.
MIX_FIRST: Final = 0x85EBCA6B
MIX_SECOND: Final = 0xC2B2AE35
# 2**32 / golden ratio, odd: spreads consecutive counters over all words.
WEYL: Final = 0x9E3779B1
DIGEST_SALT: Final = 0x5F356495

_CHUNK_WORDS: Final = 1 << 22


def mix(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return a bijective mix of every word, any shape."""
    mixed: NDArray[np.uint32] = words ^ (words >> np.uint32(16))
    mixed *= np.uint32(MIX_FIRST)
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(MIX_SECOND)
    mixed ^= mixed >> np.uint32(16)
    return mixed


def mix_one(word: int) -> int:
    """Return the mix of one word, as a Python integer."""
    return int(mix(np.array([word & 0xFFFFFFFF], dtype=np.uint32))[0])


def stream_key(seed: int, stream: int) -> int:
    """Return the key of one stream of pseudo-random words."""
    return mix_one(mix_one(seed) ^ (stream * WEYL))


def counter_words(count: int, *, seed: int, stream: int, start: int = 0) -> NDArray[np.uint32]:
    """Return `count` pseudo-random words, shape (count,); word i depends on (seed, stream, start + i) only."""
    counters = np.arange(start, start + count, dtype=np.uint32)
    counters *= np.uint32(WEYL)
    counters ^= np.uint32(stream_key(seed, stream))
    return mix(counters)


def digest(words: NDArray[np.uint32]) -> int:
    """Return the 64-bit digest of the words in C order, any shape.

    The low half sums a hash that is a bijection of each word at its place: a change of one word always changes it.
    """
    flat = words.reshape(-1)
    total = 0
    for start in range(0, flat.size, _CHUNK_WORDS):
        chunk = flat[start : start + _CHUNK_WORDS]
        places = np.arange(start, start + chunk.size, dtype=np.uint32)
        low = mix(chunk ^ mix(places ^ np.uint32(DIGEST_SALT)))
        high = mix(low + chunk)
        total += int(low.sum(dtype=np.uint64)) + (int(high.sum(dtype=np.uint64)) << 32)
    return total & 0xFFFFFFFFFFFFFFFF


def render_digest(value: int) -> str:
    """Return a digest as the JSON document and the golden tables write it."""
    return f"{value:016x}"
