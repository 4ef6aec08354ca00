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
    from collections.abc import Iterable, Iterator
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
                yield from self._pack_odd(folder, path, name, found)
                return
            handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with _closing(handle):
                found = os.fstat(handle)
                if stat.S_ISREG(found.st_mode):
                    yield from self._pack_file(handle, path, name)
                elif stat.S_ISDIR(found.st_mode):
                    _refuse_deep(levels)
                    yield _header(name, tarfile.DIRTYPE, found, mode=self._mode(found))
                    for inner in self._inner(handle, name):
                        yield from self._pack(handle, path / inner, f"{name}/{inner}", levels=levels - 1)
                else:
                    self._skip(path, "replaced while it was copied")
        except FileNotFoundError:
            self._skip(path, "removed while it was copied")
        except OSError as error:
            raise _unreadable(path, error) from error

    def _pack_odd(self, folder: int | None, path: Path, name: str, found: os.stat_result) -> Iterator[bytes]:  # noqa: ARG002
        """What is neither a file nor a folder is left out."""
        self._skip(path, _UNREAD.get(stat.S_IFMT(found.st_mode), "a device"))
        yield from ()

    def _inner(self, handle: int, name: str) -> list[str]:  # noqa: ARG002
        """What goes out of a folder, which is `name` in the tar."""
        return sorted(os.listdir(handle))

    def _mode(self, found: os.stat_result) -> int:
        """The permissions in the node."""
        return found.st_mode & 0o777

    def _pack_file(self, handle: int, path: Path, name: str) -> Iterator[bytes]:
        found = os.fstat(handle)
        left = found.st_size
        yield _header(name, tarfile.REGTYPE, found, mode=self._mode(found), size=left)
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


def _header(name: str, kind: bytes, found: os.stat_result, *, mode: int, size: int = 0, leads_to: str = "") -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size, member.mode, member.mtime = kind, size, mode, int(found.st_mtime)
    member.linkname = leads_to
    return member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


class OutgoingProject(OutgoingFiles):
    """Some files and links of a folder, which any account in the node may read.

    Args:
        source: The folder.
        names: What goes out, relative to it.
    """

    def __init__(self, source: Path, names: Iterable[str]) -> None:
        super().__init__(source)
        self._wanted: dict[str, set[str]] = {ITEM: set()}
        for name in names:
            parts = name.split("/")
            for depth, part in enumerate(parts):
                self._wanted.setdefault("/".join((ITEM, *parts[:depth])), set()).add(part)

    def _inner(self, handle: int, name: str) -> list[str]:  # noqa: ARG002
        if name not in self._wanted:
            self._skip(self._source / name.removeprefix(f"{ITEM}/"), "replaced while it was copied")
        return sorted(self._wanted[name])

    def _mode(self, found: os.stat_result) -> int:
        return 0o755 if stat.S_ISDIR(found.st_mode) or found.st_mode & stat.S_IXUSR else 0o644

    def _pack_odd(self, folder: int | None, path: Path, name: str, found: os.stat_result) -> Iterator[bytes]:
        if not stat.S_ISLNK(found.st_mode) or folder is None:
            self._skip(path, "replaced while it was copied")
        yield _header(name, tarfile.SYMTYPE, found, mode=0o777, leads_to=os.readlink(path.name, dir_fd=folder))

    def _skip(self, path: Path, why: str) -> None:
        raise UsageError(
            "the project changed while it was copied; nothing was submitted",
            evidence=f"{printable(str(path), lines=False)}: {why}",
            fix="run the same command again",
        )


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
