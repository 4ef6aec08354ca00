"""How what jobs can write is opened, read and listed: with limits, without waiting, and no link is followed.

What lies on the shared folder may be anything by the time that somebody looks: a FIFO, a link, a folder, a file of any
size or one that nobody may read.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.limits import MIB

if TYPE_CHECKING:
    from pathlib import Path

MOST_ENTRIES: Final = 50_000
_MOST_BYTES: Final = 4 * MIB
_STEP: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_SAFE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS: Final = {
    stat.S_IFIFO: "a FIFO", stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link", stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip


def open_regular(path: Path, flags: int = os.O_RDONLY, *, within: Path | None = None) -> int:
    """A handle of a regular file; OSError for whatever else is there.

    Args:
        flags: Of `os.open`.
        within: A folder above it, below which no component of the path may be a link either.
    """
    place = _enter(path.parent, path.parent if within is None else within)
    try:
        handle = os.open(path.name, flags | _SAFE, 0o666, dir_fd=place)
    finally:
        os.close(place)
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind != stat.S_IFREG:
        os.close(handle)
        raise OSError(errno.EINVAL, f"is {_KINDS.get(kind, 'no file')}", str(path))
    return handle


def open_anew(path: Path, flags: int) -> int:
    """The same for writing, where whatever else has the name of the file, or may not be opened, is moved aside."""
    regain(path)
    try:
        return open_regular(path, flags | os.O_CREAT)
    except OSError:
        if what_is(path) is None:
            raise
    move_aside(path)
    return open_regular(path, flags | os.O_CREAT)


def move_aside(path: Path) -> None:
    """Give another name to what a job put where a file belongs; nothing is done for a file, or where nothing is."""
    if what_is(path) is not None:
        _set_aside(path)


def make_way_for_folder(path: Path) -> None:
    """The same where a folder belongs; one that is there is its owner's to read and write again."""
    regain(path)
    if has_entry(path) and what_is(path) != "is a folder":
        _set_aside(path)


def _set_aside(path: Path) -> None:
    """Give another name to whatever has this one."""
    path.rename(path.with_name(f".aside-{os.urandom(4).hex()}"))


def what_is(path: Path) -> str | None:
    """What is there that cannot be read as a file, in words; None if nothing is there, or a file."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        return f"is {_KINDS.get(kind, 'no file')}"
    return None if os.access(path, os.R_OK | os.W_OK) else "cannot be read: Permission denied"


def read_limited(path: Path, *, limit: int = _MOST_BYTES, within: Path | None = None) -> bytes | None:
    """A regular file's content; None for anything else, a link or one that is larger than the limit among them."""
    found = read_part(path, start=0, most_bytes=limit + 1, within=within)
    return found[0] if found is not None and len(found[0]) <= limit else None


def read_part(path: Path, *, start: int, most_bytes: int, within: Path | None = None) -> tuple[bytes, int] | None:
    """What a regular file has from `start` on (below 0: from its end), and its size; None for anything else."""
    try:
        handle = open_regular(path, within=within)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        size = os.fstat(handle).st_size
        try:
            file.seek(start if start >= 0 else max(0, size + start))
            return file.read(most_bytes), size
        except OSError:
            return None


def has_entry(path: Path) -> bool:
    """Whether anything has this name, whatever it is; marks count by their name alone."""
    return os.path.lexists(path)


def changed_s(path: Path) -> float | None:
    """When this name was last written to, in seconds of the epoch; None if nothing has it."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return None


def names_in(folder: Path, *, within: Path | None = None, folders: bool = False) -> list[str]:
    """The names in a folder, or of the folders there.

    Raises:
        OSError: It is no folder, may not be read, or has more than `MOST_ENTRIES` names.
    """
    place = _enter(folder, folder if within is None else within)
    try:
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    finally:
        os.close(place)
    names: list[str] = []
    try:
        with os.scandir(listed) as entries:
            for count, entry in enumerate(entries):
                if count == MOST_ENTRIES:
                    raise OSError(errno.EFBIG, f"has more than {MOST_ENTRIES:,} names", str(folder))
                if not folders or entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
    finally:
        os.close(listed)
    return names


def regain(path: Path) -> None:
    """Have its owner read and write a folder or a file again from which a job took the permission."""
    with suppress(OSError):
        status = path.lstat()
        wanted = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
        is_plain = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
        if is_plain and status.st_uid == os.geteuid() and status.st_mode & wanted != wanted:
            path.chmod(stat.S_IMODE(status.st_mode) | wanted)


def _enter(folder: Path, within: Path) -> int:
    """A handle of a folder, to which no link leads from the one above."""
    place = os.open(within, _STEP)
    for step in folder.relative_to(within).parts:
        try:
            below = os.open(step, _STEP | os.O_NOFOLLOW, dir_fd=place)
        finally:
            os.close(place)
        place = below
    return place
