from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from smoke_kernels import timing
from smoke_kernels.timing import BATCH_SECONDS, MOST_LAUNCHES, Stopwatch, repetitions

if TYPE_CHECKING:
    from collections.abc import Callable


class _Clock:
    """CUDA's events on a device where a launch takes its seconds and nothing else takes any."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.log: list[str] = []

    def event(self, *, timing: bool) -> _Event:
        assert timing
        return _Event(self)

    def event_elapsed_time(self, start: _Event, end: _Event) -> float:
        return 1e3 * (end.at - start.at)

    def launch(self) -> None:
        self.log.append("launch")
        self.now += self.seconds

    def reset(self) -> None:
        self.log.append("reset")


class _Event:
    def __init__(self, clock: _Clock) -> None:
        self.clock = clock
        self.at = 0.0

    def record(self) -> None:
        self.clock.log.append("event")
        self.at = self.clock.now

    def synchronize(self) -> None:
        self.clock.log.append("wait")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], _Clock]:
    def make(seconds: float) -> _Clock:
        made = _Clock(seconds)
        monkeypatch.setattr(timing, "SIMULATED", False)
        monkeypatch.setattr(timing, "cuda", made)
        return made

    return make


def test_a_batch_of_launches_lies_between_one_pair_of_events(clock: Callable[[float], _Clock]) -> None:
    device = clock(BATCH_SECONDS / 4)
    stopwatch = Stopwatch()
    assert stopwatch.time(device.launch, reset=device.reset)
    alone, batch = ["event", "launch", "event", "wait"], ["event", *4 * ["launch"], "event", "wait"]
    assert device.log == ["reset", *alone, *batch]
    device.log.clear()
    assert stopwatch.time(device.launch, reset=device.reset)
    assert device.log == ["reset", *batch]
    assert stopwatch.samples == pytest.approx([device.seconds, device.seconds])


@pytest.mark.parametrize(("seconds", "launches"), [(0.0, MOST_LAUNCHES), (1e-6, MOST_LAUNCHES), (0.4, 1)])
def test_a_batch_is_neither_endless_nor_empty(clock: Callable[[float], _Clock], seconds: float, launches: int) -> None:
    device = clock(seconds)
    stopwatch = Stopwatch()
    stopwatch.time(device.launch, reset=device.reset)
    assert stopwatch.launches == launches


def test_a_rate_is_the_work_of_one_launch_over_its_seconds(clock: Callable[[float], _Clock]) -> None:
    device = clock(0.5)
    stopwatch = Stopwatch()
    stopwatch.time(device.launch, reset=device.reset)
    rate = stopwatch.rate("GB/s", 8.0)
    assert rate is not None
    assert (rate.unit, rate.samples) == ("GB/s", (16.0,))


def test_the_simulator_has_no_clock_and_launches_nothing_for_it() -> None:
    device = _Clock(1.0)
    stopwatch = Stopwatch()
    assert not stopwatch.time(device.launch, reset=device.reset)
    assert (device.log, stopwatch.launches, stopwatch.rate("GB/s", 1.0)) == ([], 0, None)


def test_rounds_are_counted_from_one() -> None:
    assert list(repetitions(repeats=3, seconds=0.0)) == [1, 2, 3]
