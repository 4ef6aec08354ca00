from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.core.rounds import every, watch_rounds

if TYPE_CHECKING:
    from collections.abc import Sequence


def follow(*given: int | BaseException) -> tuple[list[int], list[list[str]]]:
    """What the first round saw, and what later ones told, where a sight is a number or an error."""
    shown: list[int] = []
    told: list[list[str]] = []
    left = list(given)
    last: list[int | None] = []

    def look(seen: int | None) -> int:
        last.append(seen)
        now = left.pop(0)
        if isinstance(now, BaseException):
            raise now
        return now

    def compare(before: int, now: int) -> Sequence[str]:
        return [f"{before} to {now}"] if before != now else []

    watch_rounds(
        look,
        compare,
        rounds=[None] * len(given),
        first=shown.append,
        tell=lambda changes: told.append(list(changes)),
        trouble=lambda reason: reason or "recovered",
    )
    assert last[0] is None
    assert None not in last[1:]
    return shown, told


def test_the_first_sight_is_shown_and_later_ones_told_where_they_differ() -> None:
    assert follow(1, 1, 2, 2, 1) == ([1], [["1 to 2"], ["2 to 1"]])


def test_a_later_round_that_fails_is_told_once_and_once_when_it_is_over() -> None:
    away = HostNotReady("LXD is unreachable", evidence="refused\ntwice", fix="start it")
    assert follow(1, away, away, ValueError("odd"), 1, 1) == (
        [1],
        [["LXD is unreachable evidence: refused twice fix: start it"], ["recovered"]],
    )
    assert follow(1, ValueError("odd"), 2)[1] == [["unexpected ValueError: odd"], ["recovered", "1 to 2"]]


@pytest.mark.parametrize("error", [HostNotReady("LXD is unreachable"), ValueError("odd"), KeyboardInterrupt()])
def test_a_first_round_that_fails_ends_it(error: BaseException) -> None:
    with pytest.raises(type(error)):
        follow(error)


def test_an_interrupt_ends_it_in_any_round() -> None:
    with pytest.raises(KeyboardInterrupt):
        follow(1, KeyboardInterrupt(), 1)


class Clock:
    def __init__(self) -> None:
        self.time_s = 0.0
        self.slept: list[float] = []

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time_s += seconds


def test_rounds_begin_at_the_interval_and_a_late_one_at_once() -> None:
    clock = Clock()
    rounds = every(60.0, clock)
    began = []
    for takes_s in (5.0, 100.0, 0.0):
        next(rounds)
        began.append(clock.time_s)
        clock.time_s += takes_s
    assert began == [0.0, 60.0, 160.0]
    assert clock.slept == [55.0, 0.0]
