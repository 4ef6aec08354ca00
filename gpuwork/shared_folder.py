"""How files on the shared folder are read and written.

What lies there was written by jobs too, so it is read with a limit and no link is followed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gpuwork.errors import Elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOST_BYTES: Final = 4 * 1024 * 1024


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
def only_one(run: Path, *, name: str, log: Path) -> Iterator[None]:
    """Hold the folder of a run for the block; the kernel frees a killed process's.

    Raises:
        Elsewhere: Another process holds it.
    """
    with (run / ".lock").open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Elsewhere(
                f"the run {name} is running elsewhere",
                evidence=f"{run / '.lock'} is locked",
                fix=f"tail {log}",
            ) from error
        yield


def write_file(path: Path, content: str, *, durable: bool = True) -> None:
    """Write a file whole or not at all; what is durable is on the disk before it has its name."""
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)


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
