"""The one question of SFTP, against answers that LXD gives, and against some that it should not."""

from __future__ import annotations

import socket
import stat
import struct
import threading
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.lxd.sftp import PathEntry, look
from gpuprov.drivers.node_files import Absent

if TYPE_CHECKING:
    from pathlib import Path

UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: sftp\r\n\r\n"
HELLO = struct.pack(">LBL", 5, 2, 3)
FIFO = stat.S_IFIFO | 0o644


def packet(kind: int, body: bytes) -> bytes:
    return struct.pack(">LB", len(body) + 5, kind) + struct.pack(">L", 1) + body


def attributes(mode: int, size: int) -> bytes:
    return packet(105, struct.pack(">LQLLLLL", 1 | 2 | 4 | 8, size, 0, 0, mode, 0, 0))


class Daemon:
    """Answers one connection with bytes, whatever it is asked."""

    engine, command = "lxd", "lxc"

    def __init__(self, folder: Path, answer: bytes) -> None:
        self.socket = folder / "unix.socket"
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.socket))
        self._listener.listen()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        with self._listener:
            connection, _ = self._listener.accept()
        with connection:
            connection.sendall(self._answer)
            connection.settimeout(0.5)
            try:
                while connection.recv(4096):
                    pass
            except OSError:
                return


def ask(folder: Path, answer: bytes) -> PathEntry:
    daemon: Any = Daemon(folder, answer)
    try:
        return look(daemon, "c000", "/etc/ü")
    finally:
        daemon.thread.join(5)


@pytest.mark.parametrize("mode", [FIFO, stat.S_IFREG | 0o600, stat.S_IFLNK | 0o777, stat.S_IFCHR, stat.S_IFDIR])
def test_what_stands_at_a_path(tmp_path: Path, mode: int) -> None:
    entry = ask(tmp_path, UPGRADED + HELLO + attributes(mode, 1 << 40))
    assert (entry.kind, entry.size) == (stat.S_IFMT(mode), 1 << 40)


def test_nothing_stands_there(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="/etc/ü"):
        ask(tmp_path, UPGRADED + HELLO + packet(101, struct.pack(">L", 2)))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\n\r\n",
        UPGRADED,
        UPGRADED + HELLO + packet(101, struct.pack(">L", 4)),
        UPGRADED + struct.pack(">LB", 1 << 31, 2),
        UPGRADED + HELLO + packet(105, b"\0"),
        b"",
    ],
    ids=["refused", "silent", "failed", "endless", "cut off", "closed"],
)
def test_anything_else_is_an_error_in_three_parts(
    tmp_path: Path, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuprov.drivers.lxd.sftp.READ_S", 0.3)
    with pytest.raises(EngineError, match="does not report") as caught:
        ask(tmp_path, answer)
    assert caught.value.evidence
    assert caught.value.fix
