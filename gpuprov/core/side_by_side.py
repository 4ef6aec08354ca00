"""Work done in threads: changes, which are waited for, and questions, which nobody waits for on an interrupt."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from gpuprov.core.interrupts import postponed_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

Answer = TypeVar("Answer")
Thing = TypeVar("Thing")
_WORKERS = 8
_QUESTIONS_LEAST = 4
_MOMENT_S = 0.1


def each(act: Callable[[Thing], object], things: Sequence[Thing]) -> None:
    """Do it to all, side by side; the first error is raised once all have stopped.

    After an error or Ctrl-C nothing new is begun; a second Ctrl-C does not end the waiting either.
    """
    with postponed_interrupts() as heard, ThreadPoolExecutor(_WORKERS) as pool:
        futures = [pool.submit(act, thing) for thing in things]
        while not heard and not _settled(futures):
            pass
        for future in futures:
            future.cancel()
    for future in futures:
        if not future.cancelled():
            future.result()


def _settled(futures: Sequence[Future[object]]) -> bool:
    """Whether all have ended or one has failed; waits for that for a moment."""
    done, going_on = wait(futures, timeout=_MOMENT_S, return_when=FIRST_EXCEPTION)
    return not going_on or any(future.exception() for future in done)


def questions_at_once() -> int:
    """How many nodes to ask at once: more would only take the processor from each other."""
    return max(_QUESTIONS_LEAST, 2 * (os.cpu_count() or 1))


def ask_side_by_side(questions: Sequence[Callable[[], Answer]], *, workers: int) -> list[Answer]:
    """Call each, at most `workers` at once, and return what they return, in their order.

    Only for what changes nothing: on Ctrl-C, or when one raises, those that still run are left alone. They are daemons
    and end with the process, where a ThreadPoolExecutor would wait a minute for a node that hangs.
    """
    if len(questions) == 1:
        return [questions[0]()]
    waiting = deque(range(len(questions)))
    done: SimpleQueue[tuple[int, Answer | BaseException]] = SimpleQueue()

    def work() -> None:
        with contextlib.suppress(IndexError):  # none is left
            while True:
                number = waiting.popleft()
                done.put((number, _answer(questions[number])))

    for _ in range(min(workers, len(questions))):
        threading.Thread(target=work, daemon=True).start()
    answers: dict[int, Answer] = {}
    try:
        for _ in questions:
            number, answer = done.get()
            if isinstance(answer, BaseException):
                raise answer
            answers[number] = answer
    finally:
        waiting.clear()  # nothing new is begun after an error
    return [answers[number] for number in range(len(questions))]


def _answer(question: Callable[[], Answer]) -> Answer | BaseException:
    try:
        return question()
    except BaseException as error:  # noqa: BLE001 - raised again where the answers are collected
        return error


@contextmanager
def beside(act: Callable[[threading.Event], Answer]) -> Iterator[Callable[[], Answer]]:
    """Call it beside the block, which gets a function that waits for what it returns, or raises what it raised.

    When the block ends, by an error or Ctrl-C too, the event that it was given is set, and it is waited for.
    """
    stop, ended = threading.Event(), threading.Event()
    answers: list[Answer | BaseException] = []

    def work() -> None:
        try:
            answers.append(_answer(lambda: act(stop)))
        finally:
            ended.set()

    threading.Thread(target=work, daemon=True).start()

    def wait_for_it() -> Answer:
        ended.wait()  # a join that Ctrl-C ends takes the thread for ended from then on
        answer = answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    try:
        yield wait_for_it
    finally:
        stop.set()
        ended.wait()
