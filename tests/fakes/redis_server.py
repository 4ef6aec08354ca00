"""A real Redis for tests: Debian's program on a port of its own, with a password, in a folder of its own."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

# Debian's package redis-tools, which starts no service: the same program as redis-server, by another name
PROGRAM: Final = shutil.which("redis-server") or "/usr/bin/redis-check-rdb"
is_there = Path(PROGRAM).exists()
_READY_S: Final = 30.0
_LOOK_S: Final = 0.05


class RedisServer:
    """Keeps what it has when it is killed.

    Args:
        folder: Everything of it goes there.
        address: On which it listens.
        port: None: one that is free now.
    """

    def __init__(self, folder: Path, *, address: str = "127.0.0.1", port: int | None = None) -> None:
        self.folder, self.address, self.port = folder, address, port or _free_port()
        self.password = secrets.token_hex(16)
        self.process: subprocess.Popen[bytes] | None = None
        program = folder / "redis-server"  # it goes by the name that it is called
        program.symlink_to(PROGRAM)
        self._argv = [str(program), str(folder / "redis.conf")]
        lines = [f"bind {address}", f"port {self.port}", f"requirepass {self.password}", f"dir {folder}", 'save ""']
        lines += ["appendonly yes", "appendfsync always"]
        (folder / "redis.conf").write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + _READY_S
        while not self._answers():
            said = (self.folder / "log").read_text()
            assert self.process.poll() is None, said
            assert time.monotonic() < until, said
            time.sleep(_LOOK_S)

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as there:
            there.sendall(f"AUTH {self.password}\r\n".encode())
            return there.recv(16).startswith(b"+OK")
        return False

    def kill(self) -> None:
        """End it at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
