"""Work that Ctrl-C does not break off: an engine would go on with it, unheard."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

Answer = TypeVar("Answer")


def to_its_end(act: Callable[[], Answer]) -> Answer:
    """Call it; Ctrl-C is raised only once it has ended.

    An engine goes on with a request whose sender is gone, and an undo that comes before it finds nothing to remove.
    """
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(act)
        outlast([future], cancel=False)
    return future.result()


def outlast(futures: Sequence[Future[Any]], *, cancel: bool = True) -> None:
    """Wait until all have ended, however often Ctrl-C is pressed; it is raised then."""
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            for future in futures if cancel else ():
                future.cancel()
            wait(futures)
            break
        except KeyboardInterrupt as pressed:
            interrupt = pressed
    if interrupt:
        raise interrupt
