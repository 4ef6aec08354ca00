"""How often a kernel runs, and how long one launch takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from smoke_kernels.backend import SIMULATED, cuda

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def repetitions(*, repeats: int, seconds: float) -> Iterator[int]:
    """Count at least `repeats` rounds, and further ones until `seconds` have passed."""
    end = time.monotonic() + seconds
    done = 0
    while done < repeats or time.monotonic() < end:
        yield done
        done += 1


def launch_seconds(launch: Callable[[], None]) -> float | None:
    """Run `launch` and return the seconds it took on the device; None in the simulator, which has no clock."""
    if SIMULATED:
        launch()
        return None
    start, end = cuda.event(timing=True), cuda.event(timing=True)
    start.record()
    launch()
    end.record()
    end.synchronize()
    return float(cuda.event_elapsed_time(start, end)) / 1e3
