"""A command over ssh, fed and read piece by piece: nothing that it does or leaves undone makes the caller wait."""

from __future__ import annotations

import os
import select
import subprocess
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpuprov.core.execution import Piped

_PIECE: Final = 65536
_KEPT_BYTES: Final = 32 * 1024  # of what it says on stderr: the end
_HEARD_AT_ONCE: Final = 64  # pieces; a pipe of Linux holds 64 KiB, in writes that may each be a piece


class Exchange:
    """Its streams.

    Args:
        running: The command, with stderr.
    """

    def __init__(self, running: Piped) -> None:
        self._running = running
        self._out: deque[bytes] = deque()
        self._closing = self._closed = False
        self._said = bytearray()
        self._stderr = running.stderr  # until its end
        for stream in (running.stdin, running.stderr):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)

    @property
    def pending(self) -> int:
        """How many bytes wait to be sent."""
        return sum(map(len, self._out))

    @property
    def stderr(self) -> str:
        """The end of what it has said there. Nobody waits for more: a master of ssh may hold it open."""
        self._hear()
        return bytes(self._said).decode(errors="replace")

    def forget_stderr(self) -> None:
        """What was said there is about something else."""
        self._hear()
        self._said.clear()

    def send(self, piece: bytes) -> None:
        """Have it sent in the next turns."""
        if not self._closing:
            self._out += (piece[at : at + _PIECE] for at in range(0, len(piece), _PIECE))

    def end_input(self) -> None:
        """Close its stdin once all is sent."""
        self._closing = True
        self._flush()

    def turn(self, wait_s: float) -> bytes | None:
        """Send what it takes, and return what it has said: empty where nothing came in time, None at its end."""
        poll = select.poll()
        stdin, stdout = self._running.stdin, self._running.stdout
        poll.register(stdout, select.POLLIN)
        if self._stderr is not None:
            poll.register(self._stderr, select.POLLIN)
        if self._out and not self._closed:
            poll.register(stdin, select.POLLOUT)
        ready = dict(poll.poll(max(0.0, wait_s) * 1000))
        if not self._closed and stdin.fileno() in ready:
            self._flush()
        self._hear()
        if stdout.fileno() in ready:
            return os.read(stdout.fileno(), _PIECE) or None
        return b""

    def status(self, wait_s: float) -> int | None:
        """Its exit status; None where it does not end in time."""
        with suppress(subprocess.TimeoutExpired):
            return self._running.process.wait(wait_s)
        return None

    def _flush(self) -> None:
        if self._closed:
            return
        try:
            while self._out:
                piece = self._out.popleft()
                sent = os.write(self._running.stdin.fileno(), piece)
                if sent < len(piece):
                    self._out.appendleft(piece[sent:])
        except BlockingIOError:
            self._out.appendleft(piece)
        except OSError:  # it reads no more
            self._out.clear()
            self._closing = True
        if self._closing and not self._out:
            self._closed = True
            with suppress(OSError):
                self._running.stdin.close()

    def _hear(self) -> None:
        """Take what has come on its stderr: all that a pipe holds, and of a flood not much more."""
        with suppress(OSError, ValueError):  # there is no more now, or it was closed meanwhile
            for _ in range(_HEARD_AT_ONCE):
                piece = os.read(self._stderr.fileno(), _PIECE) if self._stderr is not None else b""
                self._said += piece
                del self._said[:-_KEPT_BYTES]
                if not piece:
                    self._stderr = None
                    return
