from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.interrupts import to_its_end
from gpuprov.core.side_by_side import ask_side_by_side, each

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
    running: list[int] = [0, 0]  # now, at most

    def question() -> None:
        with lock:
            running[0] += 1
            running[1] = max(running)
        threading.Event().wait(0.002)
        with lock:
            running[0] -= 1

    ask_side_by_side([question] * 20, workers=3)
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
