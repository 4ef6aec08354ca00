"""How much slower this machine is than usual ones: limits of work that it has to do itself follow from it."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_TRIES: Final = 3
_USUAL_S: Final = 0.01  # the machine of docs/benchmarks.md takes 0.004
_MOST: Final = 10.0


@cache
def slowness() -> float:
    """1 for a usual machine or a faster one, at most 10; other load does not count."""
    return measure_slowness(time.process_time)


def measure_slowness(clock: Callable[[], float]) -> float:
    """The same by a clock, in seconds: the best of a few tries of a fixed piece of work."""
    best_s = min(_probe(clock) for _ in range(_TRIES))
    return min(_MOST, max(1.0, best_s / _USUAL_S))


def _probe(clock: Callable[[], float]) -> float:
    began_s = clock()
    sum(range(300_000))
    return clock() - began_s
