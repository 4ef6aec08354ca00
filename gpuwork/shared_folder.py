"""Locks on the shared folder, and how files are written there; `untrusted_files` reads them."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import re
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuwork.errors import Elsewhere, StoreError
from gpuwork.untrusted_files import has_entry, move_aside, open_anew, open_regular, regain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event

_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
_LOOK_S: Final = 0.05
_LOCKS: Final = Path("/proc/locks")
_NOBODY: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EINVAL, errno.EISDIR)
_STORE_S: Final = 300.0  # a project of 1 GiB is frozen meanwhile


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Hold the lock of everyone who hands in runs; the kernel frees a killed process's.

    Raises:
        StoreError: Somebody else holds it for long.
    """
    store.mkdir(parents=True, exist_ok=True)
    lock, until = store / ".lock", time.monotonic() + _STORE_S
    handle = open_anew(lock, os.O_RDWR)
    try:
        while not try_lock(handle):
            if time.monotonic() >= until:
                raise _held(lock, os.fstat(handle).st_ino)
            time.sleep(_LOOK_S)
        yield
    finally:
        os.close(handle)


def _held(lock: Path, inode: int) -> StoreError:
    """The error for a lock that somebody holds, with its holder if that is on this node."""
    node, found = platform.node(), None
    with suppress(OSError):
        holders = re.findall(rf"^[0-9]+: FLOCK .* ([1-9][0-9]*) \S+:{inode} ", _LOCKS.read_text(), re.MULTILINE)
        found = next(iter(holders), None)
    if found is None:
        return StoreError(
            "another process has been writing here for minutes",
            evidence=f"{lock} is locked by a process of another node than {node}",
            fix=f"grep :{inode} /proc/locks; the same in the other nodes, as root; the fifth word is the process",
        )
    words = ""
    with suppress(OSError):
        words = Path(f"/proc/{found}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return StoreError(
        "another process has been writing here for minutes",
        evidence=f"{lock} is locked by process {found} on {node}: {ascii(words.strip())[1:-1][:100]}",
        fix=f"ps -fp {found}; if it is no `gpuprov submit` that works: kill {found}",
    )


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
    handle = open_anew(run / lock, os.O_RDWR)
    try:
        while not try_lock(handle):
            if time.monotonic() >= until or (stop is not None and stop.is_set()):
                raise Elsewhere(
                    f"the run {name} is running elsewhere", evidence=f"{run / lock} is locked", fix=f"tail {log}"
                )
            time.sleep(_LOOK_S)
        yield handle
    finally:
        os.close(handle)


@contextmanager
def one_of(folder: Path, places: int) -> Iterator[int | None]:
    """Hold one of so many places in a folder for the block, which gets the handle of its lock; None if all are held."""
    for place in range(places):
        handle = open_anew(folder / str(place), os.O_RDWR)
        try:
            if try_lock(handle):
                yield handle
                return
        finally:
            os.close(handle)
    yield None


def is_free(lock: Path, *, within: Path | None = None) -> bool:
    """Whether nobody holds a lock; nobody does where there is no file."""
    regain(lock)
    try:
        handle = open_regular(lock, within=within)
    except OSError as error:
        if error.errno in _NOBODY:
            return True
        raise
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def try_lock(handle: int) -> bool:
    """Take the lock of a file; whether nobody else held it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_file(path: Path, content: str, *, durable: bool = True) -> None:
    """Write a file whole or not at all; what is durable is on the disk before it has its name.

    What a job put into its place is moved aside.
    """
    part = path.with_name(f".{path.name}.part")
    with os.fdopen(open_anew(part, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    move_aside(path)
    part.replace(path)


def write_once(path: Path, content: str) -> bool:
    """Write a file whole unless it is there; whether it was written. Of two that do so at once, one does."""
    part = path.with_name(f".{path.name}.{threading.get_native_id()}.{platform.node()}.part")
    try:
        with os.fdopen(open_anew(part, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(part, path, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if has_entry(path):  # a share without hard links: the lock of the run has to suffice
            return False
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return True


def make_folder(path: Path) -> None:
    """Make a folder that may be there; what a job put into its place is not written to."""
    if path.is_symlink():
        raise FileExistsError(errno.EEXIST, "is a link, not a folder", str(path))
    path.mkdir(exist_ok=True)
