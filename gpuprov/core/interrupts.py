"""Work that Ctrl-C does not break off: an engine would go on with it, unheard."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Answer = TypeVar("Answer")
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


@contextmanager
def postponed_interrupts() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt only at the end of the block, however often Ctrl-C was pressed in it.

    Raised in the middle of what threads share, it would leave a lock that nobody ever opens. The block is given a list
    of the signals that came. In another thread than the main one, where none arrive, it stays empty.
    """
    heard: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield heard
        return
    raising = [number for number in _ENDINGS if signal.getsignal(number) is signal.default_int_handler]
    for number in raising:
        signal.signal(number, lambda number, _frame: heard.append(number))
    try:
        yield heard
    finally:
        for number in raising:
            signal.signal(number, signal.default_int_handler)
    if heard:
        raise KeyboardInterrupt


def to_its_end(act: Callable[[], Answer]) -> Answer:
    """Call it; Ctrl-C is raised only once it has ended.

    An engine goes on with a request whose sender is gone, and an undo that comes before it finds nothing to remove.
    """
    with postponed_interrupts(), ThreadPoolExecutor(1) as pool:
        future = pool.submit(act)
    return future.result()
