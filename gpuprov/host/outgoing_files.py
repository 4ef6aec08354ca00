"""Files and folders of this machine on their way into a node: what stands there, and a tar of it, as it is read."""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.printable import printable
from gpuprov.drivers.node_trees import ITEM, WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuprov.drivers.base import PathKind

MOST_LEVELS = 200  # of folders in each other; each has a file descriptor
_PIECE_BYTES = 131072
_BLOCK = 512
_UNREAD = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}


def look_here(path: Path) -> PathKind:
    """What stands at a path of this machine; links are followed.

    Raises:
        UsageError: This user may not look.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "other" if path.is_symlink() else "absent"
    except OSError as error:
        raise _unreadable(path, error) from error
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "other"


class OutgoingFiles:
    """A file or folder of this machine as a tar, read while it goes out; it is root's in the node.

    Attributes:
        files: How many files have gone out.
        total_bytes: Their sizes.
        skipped: What was left out, and why, in words.
    """

    def __init__(self, source: Path) -> None:
        self._source = source
        self.files = self.total_bytes = 0
        self.skipped: list[str] = []

    def tar(self) -> Iterator[bytes]:
        """The tar that `Driver.write_tree` takes.

        Raises:
            UsageError: Something cannot be read, or changes meanwhile.
        """
        yield from self._pack(None, self._source.resolve(), ITEM)
        yield tarfile.TarInfo(WHOLE).tobuf(tarfile.GNU_FORMAT)
        yield bytes(2 * _BLOCK)

    def _pack(self, folder: int | None, path: Path, name: str, *, levels: int = MOST_LEVELS) -> Iterator[bytes]:
        """What stands there; opened without following a link, so that nobody can put one in its place meanwhile."""
        try:
            place = path if folder is None else path.name
            found = os.stat(place, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(found.st_mode) and not stat.S_ISREG(found.st_mode):
                self._skip(path, _UNREAD.get(stat.S_IFMT(found.st_mode), "a device"))
                return
            handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with _closing(handle):
                found = os.fstat(handle)
                if stat.S_ISREG(found.st_mode):
                    yield from self._pack_file(handle, path, name)
                elif stat.S_ISDIR(found.st_mode):
                    _refuse_deep(levels)
                    yield _header(name, tarfile.DIRTYPE, found, size=0)
                    for inner in sorted(os.listdir(handle)):  # noqa: PTH208 - a path has no handle
                        yield from self._pack(handle, path / inner, f"{name}/{inner}", levels=levels - 1)
                else:
                    self._skip(path, "replaced meanwhile")
        except FileNotFoundError:
            self._skip(path, "removed meanwhile")
        except OSError as error:
            raise _unreadable(path, error) from error

    def _pack_file(self, handle: int, path: Path, name: str) -> Iterator[bytes]:
        found = os.fstat(handle)
        left = found.st_size
        yield _header(name, tarfile.REGTYPE, found, size=left)
        while left:
            piece = os.read(handle, min(_PIECE_BYTES, left))
            if not piece:
                raise UsageError(
                    f"{printable(str(path), lines=False)} became shorter while it was read",
                    evidence=f"{left} of {found.st_size} bytes are missing",
                    fix="run the same command again when nothing writes there",
                )
            left -= len(piece)
            yield piece
        yield bytes(-found.st_size % _BLOCK)
        self.files += 1
        self.total_bytes += found.st_size

    def _skip(self, path: Path, why: str) -> None:
        self.skipped.append(f"{printable(str(path), lines=False)} ({why})")


def _header(name: str, kind: bytes, found: os.stat_result, *, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size, member.mode, member.mtime = kind, size, found.st_mode & 0o777, int(found.st_mtime)
    return member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _refuse_deep(levels: int) -> None:
    if not levels:
        raise OSError(errno.ELOOP, f"folders nested more than {MOST_LEVELS} levels deep")


@contextmanager
def _closing(handle: int) -> Iterator[None]:
    """Close it behind the block."""
    try:
        yield
    finally:
        os.close(handle)


def _unreadable(path: Path, error: OSError) -> UsageError:
    shown = printable(str(path), lines=False)
    return UsageError(
        f"cannot read {shown}", evidence=error.strerror or str(error), fix=f"check the permissions: ls -ld {shown}"
    )
