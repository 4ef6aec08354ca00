"""The member's end of the protocol: it serves one request, and ends when nobody listens any more."""

from __future__ import annotations

import os
import queue
import select
import signal
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov import __version__
from gpuprov.core.errors import TimedOut, UsageError
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.core.units import MIB
from gpuprov.host.remote.lines import BEAT_S, PROTOCOL, SILENCE_S, BadLine, Lines, render_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuprov.host.remote.lines import Message

_PIECE: Final = 65536
MOST_REQUEST_BYTES: Final = 4 * MIB
_MOST_BYTES: Final = 64 * MIB  # of beats, for years
_PROGRESS: Final = 1000  # lines that wait for a slow connection; more are dropped, and a result never is
_SEND_S: Final = 60.0  # for the result to be taken


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as it came.

    Attributes:
        host: How the one who asks names this host.
    """

    verb: str
    host: str
    document: Mapping[str, Any]


class MemberEnd:
    """Two streams to the controller. Also a Reporter, whose words become lines.

    Once they are closed, or nothing is heard for SILENCE_S, this process gets SIGTERM: what it has begun is undone as
    with Ctrl-C, and its lock is free.

    Args:
        read_fd: What the controller says.
        write_fd: Where to speak to it.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._lines = Lines(most_line_bytes=MOST_REQUEST_BYTES, most_bytes=_MOST_BYTES)
        self._out: queue.Queue[bytes | None] = queue.Queue(_PROGRESS)
        self._done = threading.Event()  # its last word is said, or it is told to end
        self._ending = threading.Lock()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    def greet(self, host: str) -> Asked:
        """Say hello and receive the request.

        Raises:
            UsageError: What comes is no request.
            TimedOut: Nothing comes.
        """
        self._say("hello", protocol=PROTOCOL, version=__version__, host=host)
        deadline_s = time.monotonic() + scaled_limit_s(SILENCE_S)
        while (left_s := deadline_s - time.monotonic()) > 0:
            piece = _read(self._read_fd, left_s)
            if piece is None:
                break
            try:
                messages = list(self._lines.feed(piece))
            except BadLine as error:
                raise _no_request(str(error)) from error
            for message in messages:
                if message.kind != "beat":
                    asked = _asked(message)
                    threading.Thread(target=self._listen, daemon=True).start()
                    return asked
        raise TimedOut(
            "no request was received", evidence="requests are sent by other machines", fix="gpuprov host list"
        )

    def result(self, document: Mapping[str, Any]) -> None:
        """Say the result; the last word."""
        self._end("result", document=document)

    def error(self, parts: Mapping[str, Any]) -> None:
        """Say an error; the last word."""
        self._end("error", **parts)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Tell it."""
        self._progress("phase", name=name, state="begins")
        state = "failed"
        try:
            yield
            state = "done"
        finally:
            self._progress("phase", name=name, state=state)

    def node(self, name: str, state: str) -> None:
        """Tell it."""
        self._progress("node", name=name, state=state)

    def note(self, text: str) -> None:
        """Tell it."""
        self._progress("note", text=text)

    def warn(self, text: str) -> None:
        """Tell it."""
        self._progress("warn", text=text)

    def _progress(self, kind: str, **content: str) -> None:
        with suppress(queue.Full):  # the connection is slow, or gone
            self._out.put_nowait(render_line(kind, **content))

    def _say(self, kind: str, **content: object) -> None:
        self._out.put(render_line(kind, **content), timeout=_SEND_S)

    def _end(self, kind: str, **content: object) -> None:
        with self._ending:
            self._done.set()
        try:
            self._say(kind, **content)
            self._out.put(None, timeout=_SEND_S)
        except queue.Full:
            return  # nobody takes it
        self._writer.join(_SEND_S)

    def _write(self) -> None:
        """Write what there is, and a beat where there is nothing, until the end or until nobody reads."""
        try:
            while True:
                try:
                    line = self._out.get(timeout=BEAT_S)
                except queue.Empty:
                    line = render_line("beat")
                if line is None:
                    return
                left = memoryview(line)
                while left:
                    left = left[os.write(self._write_fd, left) :]
        except OSError:
            self._interrupt()
            while self._out.get() is not None:  # whoever speaks need not wait
                pass

    def _listen(self) -> None:
        """Hear the beats of the controller, until it is gone."""
        heard_s, silence_s = time.monotonic(), scaled_limit_s(SILENCE_S)
        while not self._done.is_set():
            piece = _read(self._read_fd, min(BEAT_S, silence_s / 4))
            now_s = time.monotonic()
            if piece:
                heard_s = now_s
            if piece is None or now_s - heard_s >= silence_s:
                self._interrupt()
                return

    def _interrupt(self) -> None:
        """Once: a second one would break off the undo."""
        with self._ending:
            if not self._done.is_set():
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


def _read(descriptor: int, wait_s: float) -> bytes | None:
    """What has come: empty where nothing did in time, None at the end."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(max(0.0, wait_s) * 1000):
        return b""
    try:
        return os.read(descriptor, _PIECE) or None
    except OSError:
        return None


def _asked(message: Message) -> Asked:
    if message.kind != "request":
        raise _no_request(f"`{message.kind}` instead of a request")
    return Asked(**message.content)


def _no_request(evidence: str) -> UsageError:
    return UsageError("the message received is not a request", evidence=evidence, fix="gpuprov host list")
