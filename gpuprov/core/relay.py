"""A port of this machine, on 127.0.0.1 alone, each of whose connections is tied to a command's stdin and stdout."""

from __future__ import annotations

import os
import select
import socket
import subprocess
from contextlib import suppress
from threading import BoundedSemaphore, Event, Lock, Thread
from typing import TYPE_CHECKING, Final

from gpuprov.core.execution import CommandMissing, piped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.core.execution import Piped

HERE: Final = "127.0.0.1"
MOST_CONNECTIONS: Final = 32
SILENCE_S: Final = 300.0
_PIECE: Final = 65536
_END_S: Final = 5.0


class Relay:
    """Listens from the beginning; has to be closed, which ends all that it has started.

    Args:
        port: Of 127.0.0.1; 0 for a free one.
        argv: The command of each connection.
        failed: Gets the reason why a connection was not answered.
        silence_s: A connection ends when its command has said nothing for so long.

    Raises:
        OSError: It cannot listen there.
    """

    def __init__(
        self, port: int, argv: Sequence[str], *, failed: Callable[[str], object], silence_s: float = SILENCE_S
    ) -> None:
        self._argv = argv
        self._failed = failed
        self._silence_s = silence_s
        self._places = BoundedSemaphore(MOST_CONNECTIONS)
        self._lock = Lock()
        self._ties: dict[_Tie, Thread] = {}
        self._listening = socket.create_server((HERE, port), backlog=MOST_CONNECTIONS)
        self.port: int = self._listening.getsockname()[1]

    def serve(self) -> None:
        """Take connections until KeyboardInterrupt; those beyond the most wait until another one ends."""
        while True:
            self._places.acquire()
            client, _ = self._listening.accept()
            tie = _Tie(client, self._silence_s)
            thread = Thread(target=self._run, args=(tie,), daemon=True)
            with self._lock:
                self._ties[tie] = thread
            thread.start()

    def close(self) -> None:
        """Listen no more, and end every connection and its command."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes a thread that serves
        self._listening.close()
        with self._lock:
            ties = dict(self._ties)
        for tie in ties:
            tie.end()
        for thread in ties.values():
            if thread.is_alive():
                thread.join(_END_S)

    def _run(self, tie: _Tie) -> None:
        try:
            reason = tie.run(self._argv)
        except (CommandMissing, OSError) as error:
            reason = str(error).partition("\n")[0]
        with self._lock:
            del self._ties[tie]
        self._places.release()
        if reason:
            self._failed(reason)


class _Tie:
    """One connection and its command."""

    def __init__(self, client: socket.socket, silence_s: float) -> None:
        self._client = client
        self._silence_s = silence_s
        self._ended = Event()
        self._command: Piped | None = None

    def run(self, argv: Sequence[str]) -> str:
        """Pass all on until both have ended; returns why nothing came from the command, if that was its own fault."""
        with self._client, piped(argv) as command:
            self._command = command
            if self._ended.is_set():
                return ""
            Thread(target=self._send, args=(command,), daemon=True).start()
            try:
                return "" if self._receive(command) else _reason(command)
            finally:
                self._shut()  # wakes the other thread

    def end(self) -> None:
        """Break it off."""
        self._ended.set()
        self._shut()
        if self._command is not None:
            self._command.kill()

    def _send(self, command: Piped) -> None:
        """From the client to the command, until the client ends."""
        with suppress(OSError, ValueError):  # either has gone
            while piece := self._client.recv(_PIECE):
                command.stdin.write(piece)
                command.stdin.flush()
        with suppress(OSError, ValueError):
            command.stdin.close()

    def _receive(self, command: Piped) -> int:
        """From the command to the client, until the command ends or is silent for too long; the number of bytes."""
        stdout, passed = command.stdout.fileno(), 0
        poll = select.poll()
        poll.register(stdout, select.POLLIN)
        with suppress(OSError):  # the client has gone
            while poll.poll(self._silence_s * 1000) and (piece := os.read(stdout, _PIECE)):
                self._client.sendall(piece)
                passed += len(piece)
        return passed

    def _shut(self) -> None:
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)


def _reason(command: Piped) -> str:
    """The exit status of a command that failed by itself; empty where it did not."""
    with suppress(subprocess.TimeoutExpired):
        status = command.process.wait(_END_S)
        return f"exit status {status}" if status > 0 else ""
    return ""
