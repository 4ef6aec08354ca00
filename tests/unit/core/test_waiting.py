from __future__ import annotations

import pytest

from gpuprov.core.errors import TimedOut
from gpuprov.core.waiting import Wait


class StoppedClock:
    def __init__(self) -> None:
        self.time_s = 0.0
        self.naps: list[float] = []

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.time_s += seconds


def wait(clock: StoppedClock, timeout_s: float = 1.0) -> Wait:
    return Wait(what="node c000 to run", timeout_s=timeout_s, fix="gpuprov logs c000", interval_s=0.4, clock=clock)


def test_what_is_already_there_costs_no_time() -> None:
    clock = StoppedClock()
    assert wait(clock, timeout_s=0).until(lambda: "running", lambda state: state == "running") == "running"
    assert clock.naps == []


def test_it_looks_again_until_done() -> None:
    clock = StoppedClock()
    states = iter(["stopped", "starting", "running"])
    assert wait(clock).until(lambda: next(states), lambda state: state == "running") == "running"
    assert clock.naps == [0.4, 0.4]


def test_a_timeout_is_a_failure_that_shows_the_last_state() -> None:
    clock = StoppedClock()
    with pytest.raises(TimedOut) as caught:
        wait(clock).until(lambda: f"starting at {clock.time_s:g}", lambda _: False)
    assert caught.value.what == "waited 1 s for node c000 to run"
    assert caught.value.evidence == "last seen: starting at 1"
    assert caught.value.fix == "gpuprov logs c000"
    assert caught.value.exit_code == 6


def test_the_time_begins_anew_while_less_is_left_than_ever_before() -> None:
    clock = StoppedClock()
    left = iter([9, 5, 4, 6])
    with pytest.raises(TimedOut, match="waited 1 s"):
        wait(clock).until(lambda: "starting", lambda _: False, undone=lambda: next(left))
    assert clock.time_s == pytest.approx(3.0)
    assert next(left, None) is None


def test_what_goes_on_is_waited_for() -> None:
    clock = StoppedClock()
    assert wait(clock).until(lambda: clock.time_s, lambda now_s: now_s > 50, undone=lambda: int(99 - clock.time_s)) > 50


def test_an_error_while_looking_is_not_waited_over() -> None:
    def gone() -> bool:
        raise ConnectionError("daemon went away")

    with pytest.raises(ConnectionError):
        wait(StoppedClock()).until(gone, bool)


def test_the_real_clock_moves() -> None:
    with pytest.raises(TimedOut):
        Wait(what="nothing", timeout_s=0.02, fix="", interval_s=0.01).until(lambda: 0, bool)
