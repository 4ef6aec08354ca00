"""The member's ear: it receives one request after the other, and has each served by a fork of this process.

What was loaded for one request is there for the next, and nothing else is: a fork has its own locks, log and memory.
"""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov import __version__
from gpuprov.core.errors import TimedOut, UsageError
from gpuprov.core.interrupts import postponed_interrupts
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.core.units import GIB, MIB
from gpuprov.link.lines import BEAT_S, PROTOCOL, SILENCE_S, BadLine, Lines, render_line
from gpuprov.link.serve import DONE, TOLD_TO_END, MemberEnd
from gpuprov.shapes.lines import Beat, Hello, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.shapes.lines import AnyLine

_PIECE: Final = 65536
MOST_REQUEST_BYTES: Final = 4 * MIB
_MOST_BYTES: Final = 1024 * GIB  # of requests and beats, for years
_LOOK_S: Final = 0.5  # how often one looks whether this process is to end
_KILLED: Final = 128  # and the signal, as a shell says it


class Unanswered(Exception):
    """The fork that served a request has ended without an answer, as one that was killed."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class Requests:
    """Two streams to the controller.

    Once nothing is heard for SILENCE_S, or the first one is closed, nobody asks any more; whatever is being served is
    told to end.

    Args:
        read_fd: What the controller says.
        write_fd: Where to speak to it.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._lines = Lines(most_line_bytes=MOST_REQUEST_BYTES, most_bytes=_MOST_BYTES)
        self._waiting: Request | None = None
        self._any = self._closed = False
        self._heard_s = time.monotonic()

    def greet(self, host: str) -> None:
        """Say hello."""
        line = render_line(Hello(protocol=PROTOCOL, version=__version__, host=host))
        try:
            os.write(self._write_fd, line)
        except OSError:
            self._closed = True

    def receive(self) -> Request | None:
        """The next request; None where no more come.

        Raises:
            UsageError: What comes is no request.
            TimedOut: Not even one has come.
        """
        self._heard_s = time.monotonic()
        while self._waiting is None and not self._closed:
            self._hear()
        asked, self._waiting = self._waiting, None
        if self._closed and self._any:
            return None
        self._any = True
        if asked is not None and not self._closed:
            return asked
        raise TimedOut(
            "no request was received", evidence="requests are sent by other machines", fix="gpuprov host list"
        )

    def refuse(self) -> MemberEnd:
        """The end to speak to who sends something else; nothing is received after it."""
        return MemberEnd(self._write_fd)

    def fork(self) -> MemberEnd | None:
        """Split into one process that serves, which is given its end, and this one, which returns once that has ended.

        Raises:
            Unanswered: That process has said neither a result nor an error.
            KeyboardInterrupt: This process was told to end; that one has ended, and undone what it had begun.
        """
        here, there = socket.socketpair()
        with postponed_interrupts() as heard:
            pid = os.fork()
            if pid:
                there.close()
                with here:
                    self._attend(pid, here, heard)
                return None
        here.close()
        os.close(self._read_fd)
        return MemberEnd(self._write_fd, there)

    def _attend(self, pid: int, life: socket.socket, interrupts: Sequence[int]) -> None:
        """Hear the controller until the fork has ended, which is told to end by closing its other end of `life`."""
        ended = os.pidfd_open(pid)
        self._heard_s = time.monotonic()
        while not _ready([ended], 0.0):
            if self._closed or interrupts:
                with suppress(OSError):
                    life.send(TOLD_TO_END if interrupts else b"")
                life.close()
                _ready([ended], BEAT_S)
            else:
                with suppress(UsageError):
                    self._hear(ended)
        os.close(ended)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if self._closed or interrupts:
            return
        if life.recv(1) != DONE:
            raise Unanswered(code if code > 0 else _KILLED - code)

    def _hear(self, *others: int) -> None:
        """Receive what comes within a moment, unless one of the others is ready before.

        Raises:
            UsageError: It is no request.
        """
        silence_s = scaled_limit_s(SILENCE_S)
        ready = _ready([self._read_fd, *others], min(_LOOK_S, silence_s / 4))
        if self._read_fd in ready and len(ready) == 1:
            piece = _read(self._read_fd)
            self._closed = not piece
            self._heard_s = time.monotonic()
            try:
                for message in self._lines.feed(piece):
                    self._take(message)
            except BadLine as error:
                self._closed = True
                raise UsageError(
                    "the message received is not a request", evidence=str(error), fix="gpuprov host list"
                ) from error
        elif time.monotonic() - self._heard_s >= silence_s:
            self._closed = True

    def _take(self, said: AnyLine) -> None:
        if isinstance(said, Beat):
            return
        if not isinstance(said, Request):
            raise BadLine(f"`{said.kind}` instead of a request")
        if self._waiting:
            raise BadLine("a request before the last one was served")
        self._waiting = said


def _ready(descriptors: Sequence[int], wait_s: float) -> list[int]:
    """Those that can be read, or have ended; empty where none can in time."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(wait_s * 1000)]


def _read(descriptor: int) -> bytes:
    """What has come; empty at the end."""
    try:
        return os.read(descriptor, _PIECE)
    except OSError:
        return b""
