"""The member's mouth: what a request comes to, line by line, for as long as somebody listens."""

from __future__ import annotations

import os
import queue
import select
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from gpuprov.link.lines import BEAT_S, render_line
from gpuprov.shapes.base import raw
from gpuprov.shapes.lines import Beat, Failure, NodeSaid, NoteSaid, PhaseSaid, Result, WarnSaid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuprov.shapes.base import Shape
    from gpuprov.shapes.lines import AnyLine

_PROGRESS: Final = 1000  # lines that wait for a slow connection; more are dropped, and a result never is
_SEND_S: Final = 60.0  # for the result to be taken
_MOMENT_S: Final = 0.2
DONE: Final = b"."
TOLD_TO_END: Final = b"!"


class MemberEnd:
    """What answers a request to the controller. Also a Reporter, whose words become lines.

    Once nobody takes them any more, this process gets SIGTERM: what it has begun is undone as with Ctrl-C, and its
    lock is free.

    Args:
        write_fd: Where to speak to it.
        life: Ends where the process that hears the controller hears it no more, or is gone; that process says
            TOLD_TO_END if it was, and this one, after its last word, DONE. None in that process.
    """

    def __init__(self, write_fd: int, life: socket.socket | None = None) -> None:
        self._write_fd, self._life = write_fd, life
        self._out: queue.Queue[tuple[bytes, bool]] = queue.Queue(_PROGRESS)  # each line, and whether it is the last
        self._done = threading.Event()  # its last word is said, or it is told to end
        self._ending = threading.Lock()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._signals, told = socket.socketpair()
        told.settimeout(0)
        signal.set_wakeup_fd(told.detach(), warn_on_full_buffer=False)
        self._writer.start()
        if life is not None:
            threading.Thread(target=self._watch, args=(life,), daemon=True).start()

    def result(self, document: Shape) -> None:
        """Say the result; the last word."""
        self._end(Result(document=raw(document)))

    def error(self, parts: Mapping[str, Any]) -> None:
        """Say an error; the last word."""
        self._end(Failure(**parts))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Tell it."""
        self._progress(PhaseSaid(name=name, state="begins"))
        state = "failed"
        try:
            yield
            state = "done"
        finally:
            self._progress(PhaseSaid(name=name, state=state))

    def node(self, name: str, state: str) -> None:
        """Tell it."""
        self._progress(NodeSaid(name=name, state=state))

    def note(self, text: str) -> None:
        """Tell it."""
        self._progress(NoteSaid(text=text))

    def warn(self, text: str) -> None:
        """Tell it."""
        self._progress(WarnSaid(text=text))

    def _progress(self, line: AnyLine) -> None:
        with suppress(queue.Full):  # the connection is slow, or gone
            self._out.put_nowait((render_line(line), False))

    def _end(self, line: AnyLine) -> None:
        with self._ending:
            self._done.set()
        try:
            self._out.put((render_line(line), True), timeout=_SEND_S)
        except queue.Full:
            return  # nobody takes it
        self._writer.join(_SEND_S)
        if self._life is not None:
            with suppress(OSError):
                self._life.send(DONE)

    def _write(self) -> None:
        """Write what there is, and a beat where there is nothing, until the end or until nobody reads."""
        last = False
        try:
            while not last:
                try:
                    line, last = self._out.get(timeout=BEAT_S)
                except queue.Empty:
                    line = render_line(Beat())
                left = memoryview(line)
                while left:
                    left = left[os.write(self._write_fd, left) :]
        except OSError:
            self._interrupt()
            while not last:  # whoever speaks need not wait
                _, last = self._out.get()

    def _watch(self, life: socket.socket) -> None:
        """Wait until that process says that nobody listens, or is gone."""
        with suppress(OSError):
            if life.recv(1) == TOLD_TO_END:
                time.sleep(_MOMENT_S)  # whoever told that process may be about to tell this one too
        self._interrupt()

    def _interrupt(self) -> None:
        """Once: a second one, also after one from outside, would break off the undo."""
        with self._ending:
            if not self._done.is_set() and not select.select([self._signals], [], [], 0)[0]:
                self._done.set()
                os.kill(os.getpid(), signal.SIGTERM)


def take_streams() -> tuple[int, int]:
    """This process's stdin and stdout for the protocol alone: whatever else reads gets nothing, or writes to stderr."""
    kept = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return kept
