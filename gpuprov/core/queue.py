"""A queue of processes: a ticket is a file that its owner holds locked, so that a killed one is out of it at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady
from gpuprov.core.lock import default_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUEUE_NAME = "gpuprov.queue"
_EVERYONE = 0o1777  # members of the engine's group who are not root wait in the same queue
_READABLE = 0o644
_LONGEST = 65536


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """A place in the queue; `text` is what its owner wrote."""

    number: int
    text: str


class Queue:
    """The requests that wait on this host, in order of arrival.

    Args:
        folder: Where the queue's own folder lives; /run/lock, or the temporary folder where that is missing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._path = (folder or default_folder()) / QUEUE_NAME

    @contextlib.contextmanager
    def join(self, text: str) -> Iterator[QueuePlace]:
        """Wait at the end of the queue for the block, or until `Place.leave`.

        Raises:
            HostNotReady: The queue's folder cannot be made or written.
        """
        try:
            place = self._join(text)
        except OSError as error:
            raise HostNotReady(
                "cannot wait in the queue",
                evidence=str(error),
                fix=f"ls -ld {self._path}  # remove it if no request is waiting",
            ) from error
        try:
            yield place
        finally:
            place.leave()

    def waiting(self) -> tuple[Ticket, ...]:
        """Every ticket whose owner lives, the oldest first; what dead ones left is removed."""
        with contextlib.suppress(OSError), self._held() as folder:
            return tuple(ticket for name in sorted(self._names()) if (ticket := self._read(folder, name)))
        return ()

    def _join(self, text: str) -> QueuePlace:
        self._make()
        with self._held() as folder:
            numbers = [int(name) for name in self._names()]
            name = f"{max(numbers, default=0) + 1:012}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, _READABLE, dir_fd=folder)
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # no one reads before the folder's lock is free
            os.fchmod(descriptor, _READABLE)
            os.write(descriptor, text.encode())
        return QueuePlace(path=self._path / name, descriptor=descriptor)

    def _make(self) -> None:
        with contextlib.suppress(FileExistsError):
            self._path.mkdir()
            self._path.chmod(_EVERYONE)  # whatever the umask

    @contextlib.contextmanager
    def _held(self) -> Iterator[int]:
        """The folder's descriptor, locked for a moment."""
        folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(folder)

    def _names(self) -> list[str]:
        return [entry.name for entry in self._path.iterdir() if entry.name.isdecimal()]

    def _read(self, folder: int, name: str) -> Ticket | None:
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return Ticket(number=int(name), text=os.pread(descriptor, _LONGEST, 0).decode(errors="replace"))
        finally:
            os.close(descriptor)
        with contextlib.suppress(OSError):  # another user's, in a sticky folder: dead all the same
            os.unlink(name, dir_fd=folder)
        return None


class QueuePlace:
    """One's own place in the queue."""

    def __init__(self, *, path: Path, descriptor: int) -> None:
        self.number = int(path.name)
        self._path = path
        self._descriptor: int | None = descriptor

    def leave(self) -> None:
        """Go; no change if one has gone."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = None
