"""One question of SFTP, version 3: what stands at a path of an instance. LXD's file API opens a FIFO to tell that."""

from __future__ import annotations

import socket
import stat
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import READ_S
from gpuprov.drivers.node_files import absent

if TYPE_CHECKING:
    from gpuprov.drivers.lxd.api import LxdApi

_VERSION = 3
_INIT, _HELLO, _LSTAT, _STATUS, _ATTRIBUTES = 1, 2, 7, 101, 105
_NO_SUCH_FILE = 2
_HAS_SIZE, _HAS_OWNER, _HAS_MODE = 1, 2, 4
_MOST_BYTES = 65536  # of an answer


@dataclass(frozen=True, kw_only=True)
class PathEntry:
    """What stands at a path; a link is not followed."""

    mode: int
    size: int

    @property
    def kind(self) -> int:
        """As `stat.S_IFMT` has it."""
        return stat.S_IFMT(self.mode)


def look(api: LxdApi, name: str, path: str) -> PathEntry:
    """What stands at a path of an instance; nothing is opened.

    Raises:
        Absent: Nothing does.
        EngineError: LXD does not report it.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(READ_S)
            connection.connect(str(api.socket))
            _upgrade(connection, name)
            _ask(connection, _INIT, struct.pack(">L", _VERSION))
            text = path.encode("utf-8", "surrogateescape")
            kind, answer = _ask(connection, _LSTAT, struct.pack(">LL", 1, len(text)) + text)
            if kind == _ATTRIBUTES:
                return _parse_attributes(answer[4:])
            (code,) = struct.unpack(">L", answer[4:8])
    except (OSError, struct.error) as error:
        raise _failure(api, name, path, f"{type(error).__name__}: {error}") from error
    if kind == _STATUS and code == _NO_SUCH_FILE:
        raise absent(name, path)
    raise _failure(api, name, path, f"SFTP answered {kind} with status {code}")


def _upgrade(connection: socket.socket, name: str) -> None:
    request = f"GET /1.0/instances/{name}/sftp HTTP/1.1\r\nHost: lxd\r\nConnection: Upgrade\r\nUpgrade: sftp\r\n\r\n"
    connection.sendall(request.encode())
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < _MOST_BYTES:
        head += _exactly(connection, 1)
    if b" 101 " not in head.split(b"\r\n")[0]:
        raise OSError(head.split(b"\r\n")[0].decode("ascii", "replace"))


def _ask(connection: socket.socket, kind: int, body: bytes) -> tuple[int, bytes]:
    connection.sendall(struct.pack(">LB", len(body) + 1, kind) + body)
    (length,) = struct.unpack(">L", _exactly(connection, 4))
    if not 1 <= length <= _MOST_BYTES:
        raise OSError(f"an answer of {length} bytes")
    answer = _exactly(connection, length)
    return answer[0], answer[1:]


def _exactly(connection: socket.socket, count: int) -> bytes:
    read = b""
    while len(read) < count:
        piece = connection.recv(count - len(read))
        if not piece:
            raise OSError("the connection was closed")
        read += piece
    return read


def _parse_attributes(answer: bytes) -> PathEntry:
    (flags,), rest = struct.unpack(">L", answer[:4]), answer[4:]
    size = mode = 0
    if flags & _HAS_SIZE:
        (size,), rest = struct.unpack(">Q", rest[:8]), rest[8:]
    if flags & _HAS_OWNER:
        rest = rest[8:]
    if flags & _HAS_MODE:
        (mode,) = struct.unpack(">L", rest[:4])
    return PathEntry(mode=mode, size=size)


def _failure(api: LxdApi, name: str, path: str, evidence: str) -> EngineError:
    return EngineError(
        f"{api.engine} does not report what {path} of {name} is",
        evidence=evidence,
        fix=f"inspect the node: {api.command} config show {name}",
    )
