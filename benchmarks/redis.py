"""A Redis of Debian's in a folder of its own, for as long as a measurement takes."""

from __future__ import annotations

import secrets
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

_READY_S: Final = 30.0
_LOOK_S: Final = 0.05


class Redis:
    """One broker on 127.0.0.1, which writes each message to the disk before it confirms it."""

    def __init__(self, program: Path, folder: Path) -> None:
        """Write its file.

        Args:
            program: Debian's /usr/bin/redis-server.
            folder: Where everything of it goes.
        """
        self._program, self._folder = program, folder
        self._process: subprocess.Popen[bytes] | None = None
        password = secrets.token_hex(16)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = int(found.getsockname()[1])
        self.url = f"redis://:{password}@127.0.0.1:{port}/0"
        lines = ["bind 127.0.0.1", f"port {port}", f"requirepass {password}", f"dir {folder}", 'save ""']
        lines += ["appendonly yes", "appendfsync always", "maxmemory-policy noeviction"]
        (folder / "redis.conf").write_text("\n".join(lines) + "\n")

    def start(self) -> float:
        """Start it; how many seconds it takes until somebody can log in."""
        began = time.monotonic()
        with (self._folder / "redis.log").open("ab") as log:
            argv = [self._program, self._folder / "redis.conf"]
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() - began > _READY_S:
                raise SystemExit(f"Redis does not start:\n{(self._folder / 'redis.log').read_text()}")
            time.sleep(_LOOK_S)
        return time.monotonic() - began

    def answers(self) -> bool:
        """Whether a worker can log in."""
        from kombu import Connection

        with Connection(self.url) as connection:
            try:
                return bool(connection.default_channel.client.ping())
            except connection.connection_errors:
                return False

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it by a signal, and wait until it is gone."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def finish(self) -> None:
        """Leave nothing running."""
        self.end(signal.SIGKILL)

    def memory_mib(self) -> int:
        """The resident memory of the broker's process."""
        assert self._process is not None  # noqa: S101
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) // 1024
