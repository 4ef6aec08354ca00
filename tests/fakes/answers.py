"""A socket that answers requests of HTTP with bytes of a test's choice, broken ones too, or never."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NEVER = b""
_LATE_S = 0.3


class Late(bytes):
    """An answer that takes its time."""


def http(status: int, body: str, *, length: int | None = None, kind: str = "application/json") -> bytes:
    """An answer; one whose `length` is more than its body breaks off."""
    size = len(body.encode()) if length is None else length
    controller = f"Content-Type: {kind}\r\nContent-Length: {size}\r\nConnection: close"
    return f"HTTP/1.1 {status} X\r\n{controller}\r\n\r\n{body}".encode()


@contextmanager
def answering(place: Path, *answers: bytes) -> Iterator[Path]:
    """A socket whose first request gets the first answer; the last answer is for all that follow."""
    over = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        left = list(answers)

        def serve(connection: socket.socket) -> None:
            with connection:
                _read_request(connection)
                answer = left.pop(0) if len(left) > 1 else left[0]
                if answer == NEVER:
                    over.wait(30.0)
                if isinstance(answer, Late):
                    over.wait(_LATE_S)
                with suppress(OSError):  # who asked has gone
                    connection.sendall(answer)

        def accept() -> None:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield place
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _read_request(connection: socket.socket) -> None:
    got = b""
    while b"\r\n\r\n" not in got:
        got += connection.recv(65536) or b"\r\n\r\n"
    controller, _, body = got.partition(b"\r\n\r\n")
    lines = controller.lower().split(b"\r\n")
    size = next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), 0)
    while len(body) < size:
        body += connection.recv(65536)
