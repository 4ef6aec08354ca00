"""How files on the shared folder are read and written.

What lies there was written by jobs too, so it is read with a limit and no link is followed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import stat
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gpuwork.errors import Elsewhere
from gpuwork.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from threading import Event

_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
_LOOK_S: Final = 0.05
_MOST_BYTES: Final = 4 * MIB


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Hold the lock of everyone who hands in runs; the kernel frees a killed process's."""
    store.mkdir(parents=True, exist_ok=True)
    handle = os.open(store / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def only_one(
    run: Path, *, name: str, log: Path, lock: str = ".lock", patience_s: float = 0, stop: Event | None = None
) -> Iterator[int]:
    """Hold a lock in the folder of a run for the block, which gets its handle; the kernel frees a killed process's.

    A process that inherits the handle holds the lock too.

    Args:
        run: The folder.
        name: Of the run, for people.
        log: What it prints.
        lock: The file.
        patience_s: How long to wait for whoever holds it, who may be about to end.
        stop: Ends the waiting when it is set.

    Raises:
        Elsewhere: Another process holds it.
    """
    until = time.monotonic() + patience_s
    with (run / lock).open("a", encoding="utf-8") as file:
        while not _try_lock(file.fileno()):
            if time.monotonic() >= until or (stop is not None and stop.is_set()):
                raise Elsewhere(
                    f"the run {name} is running elsewhere", evidence=f"{run / lock} is locked", fix=f"tail {log}"
                )
            time.sleep(_LOOK_S)
        yield file.fileno()


@contextmanager
def one_of(folder: Path, places: int) -> Iterator[int | None]:
    """Hold one of so many places in a folder for the block, which gets the handle of its lock; None if all are held."""
    for place in range(places):
        with (folder / str(place)).open("a", encoding="utf-8") as file:
            if _try_lock(file.fileno()):
                yield file.fileno()
                return
    yield None


def is_free(lock: Path) -> bool:
    """Whether nobody holds a lock."""
    try:
        with lock.open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_file(path: Path, content: str, *, durable: bool = True) -> None:
    """Write a file whole or not at all; what is durable is on the disk before it has its name."""
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)


def write_once(path: Path, content: str) -> bool:
    """Write a file whole unless it is there; whether it was written. Of two that do so at once, one does."""
    part = path.with_name(f".{path.name}.{threading.get_native_id()}.{platform.node()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(part, path, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():  # a share without hard links: the lock of the run has to suffice
            return False
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return True


def read_limited(path: Path, *, limit: int = _MOST_BYTES) -> bytes | None:
    """A regular file's content; None for anything else, a link or one that is larger than the limit among them."""
    found = read_part(path, start=0, most_bytes=limit + 1)
    return found[0] if found is not None and len(found[0]) <= limit else None


def read_part(path: Path, *, start: int, most_bytes: int) -> tuple[bytes, int] | None:
    """What a regular file has from `start` on (below 0: from its end), and its size; None for anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return None
        with os.fdopen(handle, "rb", closefd=False) as file:
            file.seek(start if start >= 0 else max(0, status.st_size + start))
            return file.read(most_bytes), status.st_size
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder that may be there; what a job put into its place is not written to."""
    if path.is_symlink():
        raise FileExistsError(errno.EEXIST, "is a link, not a folder", str(path))
    path.mkdir(exist_ok=True)
