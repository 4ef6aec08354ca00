"""Parallel tempering: chains at neighbouring temperatures exchange these, by Metropolis. Pure.

Replicas of a ladder are chains that follow each other; each has a temperature of its own, and good states get to the
cold end. What is drawn depends on the seed, the round and the number of the ladder, so that it does not matter how
ladders are divided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating]

_STREAM: Final = 0x6C616464  # keeps these numbers apart from those of chains


def ladder(replicas: int, *, hottest: float, coldest: float) -> NDArray[np.float64]:
    """The temperatures of a ladder, the hottest first, each the same part of the one before."""
    return np.geomspace(hottest, coldest, replicas)


def exchange(energies: Floats, temperatures: Floats, *, replicas: int, seed: int, round_: int, first: int) -> Floats:
    """The temperatures behind an exchange.

    Args:
        energies: Of the chains.
        temperatures: Of the chains.
        replicas: Chains of a ladder.
        seed: Of the run.
        round_: The number of the exchange: even ones pair ranks 0 and 1, 2 and 3, odd ones 1 and 2, and so on.
        first: The number of the first chain in the whole run.
    """
    hot_first = -temperatures.reshape(-1, replicas).astype(np.float64)
    order = np.argsort(hot_first, axis=1, kind="stable")  # the chain at each rank
    by_rank = np.take_along_axis(energies.reshape(-1, replicas).astype(np.float64), order, axis=1)
    sorted_temperatures = np.take_along_axis(temperatures.reshape(-1, replicas), order, axis=1)
    hot = np.arange(round_ % 2, replicas - 1, 2)
    inverse = 1.0 / sorted_temperatures.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        gain = (inverse[:, hot + 1] - inverse[:, hot]) * (by_rank[:, hot + 1] - by_rank[:, hot])
        drawn = _uniform(seed, round_, first // replicas, (len(order), len(hot)))
        swapped = np.log(np.maximum(drawn, 1e-300)) < gain  # the colder one gets the lower energy; NaN never
    there = order.copy()
    there[:, hot] = np.where(swapped, order[:, hot + 1], order[:, hot])
    there[:, hot + 1] = np.where(swapped, order[:, hot], order[:, hot + 1])
    found = np.empty_like(sorted_temperatures)
    np.put_along_axis(found, there, sorted_temperatures, axis=1)
    return found.reshape(-1)


def _uniform(seed: int, round_: int, first: int, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Numbers in [0, 1), by ladder and pair: SplitMix64 of a counter."""
    ladders = np.arange(first, first + shape[0], dtype=np.uint64)[:, None]
    pairs = np.arange(shape[1], dtype=np.uint64)[None, :]
    words = _mix(np.uint64(seed & (2**64 - 1)) ^ np.uint64(_STREAM) + np.zeros((1, 1), np.uint64))
    words = _mix(words ^ np.uint64(round_))
    words = _mix(_mix(words ^ ladders) ^ pairs)
    drawn: NDArray[np.float64] = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return drawn


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = words ^ words >> np.uint64(31)
    return mixed
