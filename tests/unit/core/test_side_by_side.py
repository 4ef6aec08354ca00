from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.interrupts import to_its_end
from gpuprov.core.side_by_side import ask_side_by_side, beside, each

if TYPE_CHECKING:
    from collections.abc import Callable


def test_answers_come_in_the_order_of_the_questions() -> None:
    first_may_end = threading.Event()

    def first() -> int:
        assert first_may_end.wait(10)
        return 1

    def second() -> int:
        first_may_end.set()
        return 2

    assert ask_side_by_side([first, second], workers=2) == [1, 2]


def test_no_more_than_the_workers_run_at_once() -> None:
    lock = threading.Lock()
    three = threading.Barrier(3, timeout=30)
    running: list[int] = [0, 0]  # now, at most

    def question() -> None:
        with lock:
            running[0] += 1
            running[1] = max(running)
        three.wait()
        with lock:
            running[0] -= 1

    ask_side_by_side([question] * 21, workers=3)
    assert running == [0, 3]


def test_an_error_is_raised_at_once_and_nothing_new_begins() -> None:
    release = threading.Event()
    asked: list[str] = []

    def stuck() -> None:
        release.wait(10)

    def broken() -> None:
        raise KeyError("x")

    later: list[Callable[[], None]] = [lambda: asked.append("later")] * 5
    with pytest.raises(KeyError):
        ask_side_by_side([stuck, broken, stuck, *later], workers=2)
    release.set()
    assert len(asked) <= 1  # the worker of the broken one may have taken one more


def test_nothing_to_ask() -> None:
    assert ask_side_by_side([], workers=4) == []


@pytest.mark.slow
def test_however_often_ctrl_c_is_pressed_what_has_begun_is_waited_for_and_nothing_new_begins() -> None:
    begun: list[int] = []
    ended: list[int] = []

    def act(number: int) -> None:
        begun.append(number)
        for _ in range(3):
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(KeyboardInterrupt):
        each(act, range(50))
    assert sorted(begun) == sorted(ended)
    assert len(begun) < 50
    with pytest.raises(KeyboardInterrupt):
        to_its_end(lambda: act(50))
    assert 50 in ended


def test_an_interrupt_as_the_work_begins_is_raised_at_its_end() -> None:
    ended: list[int] = []

    def act() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        threading.Event().wait(0.02)
        ended.append(len(ended))

    for number in range(5):
        with pytest.raises(KeyboardInterrupt):
            to_its_end(act)
        assert ended == list(range(number + 1))


def test_what_runs_beside_a_block_is_waited_for_there() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def act(_stop: threading.Event) -> int:
        begun.set()
        assert go_on.wait(10)
        return 7

    with beside(act) as answer:
        assert begun.wait(10)
        go_on.set()
        assert answer() == 7


def test_an_error_beside_a_block_is_raised_where_it_is_waited_for() -> None:
    def act(_stop: threading.Event) -> None:
        raise ValueError("beside")

    reached = []
    with pytest.raises(ValueError, match="beside"), beside(act) as answer:
        reached.append("block")
        answer()
    assert reached == ["block"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_fails_stops_what_runs_beside_it_and_waits_for_it(error: type[BaseException]) -> None:
    ended = []

    def act(stop: threading.Event) -> None:
        assert stop.wait(10)
        ended.append(True)

    with pytest.raises(error), beside(act):
        raise error
    assert ended == [True]


def test_ctrl_c_while_it_is_waited_for_lets_it_clean_up() -> None:
    waited_for = threading.Event()
    ended = []

    def act(stop: threading.Event) -> None:
        assert waited_for.wait(10)
        threading.Event().wait(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert stop.wait(10)
        threading.Event().wait(0.1)
        ended.append(True)

    with pytest.raises(KeyboardInterrupt), beside(act) as answer:
        waited_for.set()
        answer()
    assert ended == [True]
