"""How often a kernel runs, and how long one launch takes."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from smoke_kernels.backend import SIMULATED, cuda
from smoke_kernels.result import Rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Python needs some 50 us for a launch. A batch that keeps the GPU busy for so long hides all but the first one's.
BATCH_SECONDS: Final = 0.01
MOST_LAUNCHES: Final = 64


def repetitions(*, repeats: int, seconds: float) -> Iterator[int]:
    """Count at least `repeats` rounds from 1, and further ones until `seconds` have passed."""
    end = time.monotonic() + seconds
    done = 0
    while done < repeats or time.monotonic() < end:
        done += 1
        yield done


class Stopwatch:
    """Times launches on the device, in batches under one pair of events: the GPU is timed, not Python.

    The simulator has no clock: there it launches nothing and has no samples.
    """

    def __init__(self) -> None:
        """Start without samples."""
        self.samples: list[float] = []
        """Seconds of one launch, one sample a batch."""
        self.launches = 0
        """Launches in a batch; 0 before the first one."""

    def time(self, launch: Callable[[], None], *, reset: Callable[[], None]) -> bool:
        """Reset, then add a sample of launches of a kernel that was launched before; False where there is no clock."""
        if SIMULATED:
            return False
        reset()
        if not self.launches:
            alone = _batch_seconds(launch, 1)
            self.launches = min(MOST_LAUNCHES, max(1, math.ceil(BATCH_SECONDS / max(alone, 1e-9))))
        self.samples.append(_batch_seconds(launch, self.launches) / self.launches)
        return True

    def rate(self, unit: str, work: float) -> Rate | None:
        """Return the rate of launches that each do so much of the unit's work; None where there is no clock."""
        return Rate(unit=unit, samples=tuple(work / seconds for seconds in self.samples)) if self.samples else None


def _batch_seconds(launch: Callable[[], None], launches: int) -> float:
    start, end = cuda.event(timing=True), cuda.event(timing=True)
    start.record()
    for _ in range(launches):
        launch()
    end.record()
    end.synchronize()
    return float(cuda.event_elapsed_time(start, end)) / 1e3
