"""A broker in a folder, for real Celery workers: kombu's filesystem transport with what RabbitMQ promises beside it.

A message that was delivered and not acknowledged belongs to the connection that got it, as a lock on its file. It waits
again when that connection is gone: the kernel frees a killed process's locks. While there is a file `down`, the broker
is unreachable: connections break, and none is made.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, filesystem, virtual
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps, loads

SCHEME = "folder"
_READS = 100


def register() -> None:
    """Let kombu know the scheme, in this process."""
    TRANSPORT_ALIASES[SCHEME] = f"{__name__}:Transport"


def url_of(folder: Path, *, user: str = "") -> str:
    """The URL of a broker in a folder; `user` is `name:password@`, and nobody checks it."""
    return f"{SCHEME}://{user}{folder}"


def count_messages(folder: Path, queue: str) -> tuple[int, int]:
    """How many messages of a queue wait, and how many are with a worker (or were, until it was killed)."""
    return len([*folder.glob(f"queues/*.{queue}.msg")]), len([*folder.glob(f"held/*.{queue}.msg")])


class _QoS(virtual.QoS):  # type: ignore[misc]
    restore_at_shutdown = False

    def ack(self, delivery_tag: str) -> None:
        self.channel.settle(delivery_tag, requeue=False)
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self.channel.settle(delivery_tag, requeue=requeue)
        virtual.QoS.ack(self, delivery_tag)


class Channel(filesystem.Channel):  # type: ignore[misc]
    QoS = _QoS
    do_restore = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held: dict[str, tuple[int, Path]] = {}

    @property
    def folder(self) -> Path:
        return Path("/", self.connection.client.virtual_host)

    @property
    def data_folder_in(self) -> str:
        return self._sub("queues")

    data_folder_out = data_folder_in

    @property
    def control_folder(self) -> Path:
        return Path(self._sub("control"))

    def _sub(self, name: str) -> str:
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return str(path)

    def check(self) -> None:
        if (self.folder / "down").exists():
            self.drop()
            raise ConnectionResetError("the broker is unreachable")

    def drop(self) -> None:
        """The connection is gone."""
        for tag in list(self._held):
            handle, _ = self._held.pop(tag)
            os.close(handle)

    def close(self) -> None:
        self.drop()
        super().close()

    def settle(self, tag: str, *, requeue: bool) -> None:
        if tag in self._held:
            handle, path = self._held.pop(tag)
            if requeue:
                path.rename(Path(self.data_folder_in, path.name))
            else:
                path.unlink()
            os.close(handle)

    def _put(self, queue: str, payload: Any, **_: Any) -> None:
        self.check()
        name = f"{time.monotonic_ns():020}_{uuid.uuid4()}.{queue}.msg"
        part = self.folder / name  # kombu's own writes where others already read
        part.write_text(dumps(payload))
        part.rename(Path(self.data_folder_in, name))

    def _queue_bind(self, *args: Any) -> None:
        with (self.folder / "bind").open("a") as file:  # of two that make the table at once, kombu keeps one
            fcntl.flock(file, fcntl.LOCK_EX)
            super()._queue_bind(*args)

    def get_table(self, exchange: str) -> Any:
        for _ in range(_READS):
            with suppress(ValueError):  # kombu empties the file before it locks it
                return super().get_table(exchange)
            time.sleep(0.01)
        return super().get_table(exchange)

    def _get(self, queue: str) -> Any:
        self.check()
        held = Path(self._sub("held"))
        for path in held.glob(f"*.{queue}.msg"):
            handle = _lock(path)
            if handle is not None:  # whoever had it is gone
                path.rename(Path(self.data_folder_in, path.name))
                os.close(handle)
        for path in sorted(Path(self.data_folder_in).glob(f"*.{queue}.msg")):
            handle = _lock(path)
            if handle is None:
                continue
            path.rename(held / path.name)
            payload = loads(bytes_to_str((held / path.name).read_bytes()))
            self._held[payload["properties"]["delivery_tag"]] = (handle, held / path.name)
            return payload
        raise Empty


class Transport(filesystem.Transport):  # type: ignore[misc]
    Channel = Channel
    default_port = 0
    polling_interval = 0.02
    connection_errors = (OSError,)

    def establish_connection(self) -> Any:
        if Path("/", self.client.virtual_host, "down").exists():
            raise ConnectionRefusedError("the broker is unreachable")
        return super().establish_connection()


def _lock(path: Path) -> int | None:
    """A handle that locks a file, if nobody else has it and it is still there."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.stat().st_ino == os.fstat(handle).st_ino:
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(handle)
    return None
