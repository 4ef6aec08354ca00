"""A RabbitMQ of Debian's in a folder of its own, configured as in nodes, for as long as a measurement takes."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

from gpuprov.render.templates import render

ACCOUNT: Final = "gpuwork"
LEAN_HOME: Final = Path(__file__).parents[1] / "roles/broker/files/lean-home"
TEMPLATES: Final = Path(__file__).parents[1] / "templates/worker"
_READY_S: Final = 120.0
_LOOK_S: Final = 0.05


class RabbitMq:
    """One broker on 127.0.0.1, which keeps what it has when it is killed."""

    def __init__(self, program: Path, folder: Path) -> None:
        """Write its files.

        Args:
            program: Debian's /usr/lib/rabbitmq/bin/rabbitmq-server.
            folder: Where everything of it goes.
        """
        self._program, self._folder = program, folder
        self._port, epmd, distribution = (_free_port() for _ in range(3))
        self._epmd_port = epmd
        self._process: subprocess.Popen[bytes] | None = None
        self._epmd: subprocess.Popen[bytes] | None = None
        self.password = secrets.token_hex(16)
        self.configure(consumer_timeout=None)
        values = {"home": folder / "home", "epmd_port": epmd, "distribution_port": distribution}
        (folder / "rabbitmq-env.conf").write_text(render(TEMPLATES, "rabbitmq-env.conf.j2", **values))

    @property
    def url(self) -> str:
        """What workers are told."""
        return f"amqp://{ACCOUNT}:{self.password}@127.0.0.1:{self._port}/{ACCOUNT}"

    def configure(self, *, consumer_timeout: int | None) -> None:
        """Write what may change between two starts: the password, and the limit for a task (ms)."""
        definitions = self._folder / "definitions.json"
        definitions.write_text(render(TEMPLATES, "definitions.json.j2", password_hash=hash_password(self.password)))
        values = {"address": "127.0.0.1", "port": self._port, "definitions": definitions}
        (self._folder / "rabbitmq.conf").write_text(render(TEMPLATES, "rabbitmq.conf.j2", **values))
        advanced = (TEMPLATES / "advanced.config").read_text()
        limit = "undefined" if consumer_timeout is None else str(consumer_timeout)
        (self._folder / "advanced.config").write_text(advanced.replace("undefined", limit))

    def start(self) -> float:
        """Start it; how many seconds it takes until somebody can log in."""
        home = self._folder
        if not (home / "home").exists():
            self._make_lean_home(home / "home")
        env = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
        env |= {"HOME": str(home), "RUNNING_UNDER_SYSTEMD": "true"}
        paths = {"CONF_ENV_FILE": "rabbitmq-env.conf", "CONFIG_FILE": "rabbitmq", "MNESIA_BASE": "data"}
        paths |= {"ADVANCED_CONFIG_FILE": "advanced.config", "LOG_BASE": "logs", "ENABLED_PLUGINS_FILE": "no-plugins"}
        env |= {f"RABBITMQ_{name}": str(home / path) for name, path in paths.items()}
        if self._epmd is None:  # RabbitMQ would start one that lives on
            epmd = ["epmd", "-address", "127.0.0.1", "-port", str(self._epmd_port)]
            self._epmd = subprocess.Popen(epmd)
        began = time.monotonic()
        with (home / "rabbitmq.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() - began > _READY_S:
                raise SystemExit(f"RabbitMQ does not start:\n{(home / 'rabbitmq.log').read_text()[-2000:]}")
            time.sleep(_LOOK_S)
        return time.monotonic() - began

    def answers(self) -> bool:
        """Whether a worker can log in."""
        from kombu import Connection

        try:
            with Connection(self.url, connect_timeout=2) as connection:
                connection.connect()
        except OSError:
            return False
        return True

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it by a signal, and wait until it is gone."""
        if self._process is not None:
            os.killpg(self._process.pid, how)
            self._process.wait()
            self._process = None

    def finish(self) -> None:
        """Leave nothing running."""
        self.end(signal.SIGKILL)
        if self._epmd is not None:
            self._epmd.terminate()
            self._epmd.wait()

    def memory_mib(self) -> int:
        """The resident memory of the broker's process."""
        assert self._process is not None  # noqa: S101
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) // 1024

    def _make_lean_home(self, home: Path) -> None:
        """As in an image."""
        plugins = next(self._program.parents[1].glob("lib/rabbitmq_server-*/plugins"))
        names = (TEMPLATES / "rabbitmq-applications").read_text().split()
        subprocess.run(["escript", LEAN_HOME, home, plugins, *names], check=True)  # noqa: S607  (of the PATH)


def hash_password(password: str, salt: bytes | None = None) -> str:
    """As RabbitMQ keeps it: four bytes of salt, and SHA-256 of these and the password."""
    salt = secrets.token_bytes(4) if salt is None else salt
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
