"""What arrived on a stream is read, however abruptly LXD closes it."""

from __future__ import annotations

import base64
import hashlib
import socket
import threading
from typing import TYPE_CHECKING

from gpuprov.drivers.lxd.streams import open_stream

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
_PING, _LAST, _END = b"\x89\x00", b"\x82\x04last", b"\x81\x00"


def _serve_and_vanish(listener: socket.socket) -> None:
    peer, _ = listener.accept()
    request = b""
    while not request.endswith(b"\r\n\r\n"):
        request += peer.recv(4096)
    key = next(line for line in request.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:"))
    accept = base64.b64encode(hashlib.sha1(key.split(b": ")[1] + _MAGIC, usedforsecurity=False).digest())
    peer.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        + accept
        + b"\r\n\r\n"
        + _PING
        + _LAST
        + _END
    )
    peer.close()  # before the answer to the ping, which therefore fails


def test_an_answer_that_fails_takes_nothing_with_it(tmp_path: Path) -> None:
    address = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        server = threading.Thread(target=_serve_and_vanish, args=(listener,))
        server.start()
        with open_stream(address, "ws://lxd/") as stream:
            server.join()
            assert [stream.recv(5), stream.recv(5)] == [b"last", ""]
