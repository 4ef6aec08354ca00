"""Folders of a host that nodes mount: looked at, made and removed through handles, so that no link is ever followed."""

from __future__ import annotations

import os
import re
import stat
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from errno import ENOTEMPTY
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Literal

from gpuprov.core.errors import HostNotReady
from gpuprov.core.execution import run
from gpuprov.core.limits import Limits
from gpuprov.machine.disks import count_usage, look_at_disk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuprov.core.disk import Disk, Usage

FolderKind = Literal["absent", "folder", "file", "link", "hidden"]

_OURS: Final = 0o750  # nobody else on the host reads what jobs write
_ABOVE: Final = 0o700  # root in a node can open the folder itself, and put a program of root's there
_FLAGS: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SILENCE_S: Final = 60.0  # of `rm`, however much there is to remove
MARK: Final = ".gpuprov-mark-"  # how the name of every mark begins
_MARK_S: Final = 600.0  # after which nobody waits for one any more
_MARK_BYTES: Final = 200
_MOST_ENTRIES: Final = 10_000
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, kw_only=True)
class FolderLook:
    """What stands at a path.

    Attributes:
        kind: `hidden` where this user may not look.
        at: The path that is of this kind: the folder's own, or that of a link or a file on the way to it.
        owner: The user to whom the folder belongs.
        empty: Whether nothing but marks is in it, as far as this user can see.
        mounts: Mount points at or below it.
        can_give: Whether this process may give folders to other users.
        filesystem: The kind and the source of the file system that it is on: `nfs4 nas:/lab`.
    """

    kind: FolderKind
    at: str
    owner: int = 0
    empty: bool = False
    mounts: tuple[str, ...] = ()
    can_give: bool = False
    filesystem: str = ""


class LocalFolders:
    """The folders of a machine.

    Args:
        root: Where its file system begins.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def look(self, path: str) -> FolderLook:
        """What stands at an absolute path; changes nothing."""
        can_give = os.geteuid() == 0
        names = PurePosixPath(path).parts[1:]
        with ExitStack() as stack:
            here = _opened(stack, str(self._root), os.O_PATH)
            for number, name in enumerate(names, 1):
                at = "/" + "/".join(names[:number])
                try:
                    status = os.stat(name, dir_fd=here, follow_symlinks=False)
                    if not stat.S_ISDIR(status.st_mode):
                        kind: FolderKind = "link" if stat.S_ISLNK(status.st_mode) else "file"
                        return FolderLook(kind=kind, at=at, can_give=can_give)
                    here = _opened(stack, name, os.O_PATH, here)
                except FileNotFoundError:
                    return FolderLook(kind="absent", at=path, can_give=can_give)
                except OSError:
                    return FolderLook(kind="hidden", at=at, can_give=can_give)
            owner, empty = os.fstat(here).st_uid, _is_empty(here)
        table = _read(self._root / "proc/self/mountinfo")
        return FolderLook(
            kind="folder",
            at=path,
            owner=owner,
            empty=empty,
            mounts=tuple(find_mounts(table, path)),
            can_give=can_give,
            filesystem=find_filesystem(table, path),
        )

    def disk(self, path: str) -> Disk | None:
        """Read aside: a file server may be away."""
        return look_at_disk(self._root / path.lstrip("/"))

    def usage(self, path: str) -> Usage:
        """The same."""
        return count_usage(self._root / path.lstrip("/"))

    def make(self, path: str, *, owner: int, mode: int = _OURS) -> None:
        """Make a folder, and those above it that are missing, and give it to a user; an empty one of root is taken.

        It gets its owner last: where a run is killed before, an empty folder of root is left.

        Raises:
            HostNotReady: It cannot be made, or somebody has put something else there meanwhile.
        """
        with self._above(path, make=True) as (above, name):
            _make(above, name, mode)
            with ExitStack() as stack:
                folder = _opened(stack, name, os.O_RDONLY, above)
                status = os.fstat(folder)
                if status.st_uid == owner:
                    return
                if status.st_uid != os.geteuid() or not _is_empty(folder):
                    raise HostNotReady(
                        f"the folder {path} is not used",
                        evidence=f"it belongs to user {status.st_uid} and is not a new folder",
                        fix=f"ls -la {path}; then run the same command again",
                    )
                os.fchmod(folder, mode)
                os.fchown(folder, owner, owner)

    def drop(self, path: str) -> None:
        """Remove a folder in which there is nothing but empty folders, such as new homes; no change if it is absent.

        Raises:
            HostNotReady: It has content.
        """
        if self.look(path).kind != "absent":
            with self._above(path) as (above, name):
                _drop(above, name)

    def empty(self, path: str, *, owner: int) -> None:
        """Remove all that is in a folder, as the user to whom it belongs; no link is followed.

        Root of this machine may be nobody on the machine that has the files.

        Raises:
            GpuprovError: Something could not be removed.
        """
        place = str(self._root / path.lstrip("/"))
        user = ["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups"] if os.geteuid() == 0 else []
        everything = ["find", place, "-xdev", "-mindepth", "1", "-delete"]
        # in a folder that this user may enter, or `find` cannot begin
        run([*user, *everything], timeout_s=Limits(silence_s=_SILENCE_S), cwd="/")

    def set_aside(self, path: str) -> None:
        """Take a folder out of the way, with all that is in it, in one step; `clear` removes it.

        Raises:
            HostNotReady: It cannot be.
        """
        with self._above(path) as (above, name):
            os.rename(name, f"{_aside(name)}{os.getpid()}", src_dir_fd=above, dst_dir_fd=above)

    def clear(self, path: str) -> None:
        """Remove what was set aside from this path, also by a run that was killed; no link is followed.

        Raises:
            HostNotReady: Something could not be removed.
            TimedOut: It hangs.
        """
        if self.look(str(PurePosixPath(path).parent)).kind != "folder":
            return
        place = self._root / path.lstrip("/")
        left = [str(found) for found in place.parent.iterdir() if found.name.startswith(_aside(place.name))]
        if left:  # by `rm`: a node can nest folders deeper than Python's own way reaches
            run(["rm", "-rf", "--one-file-system", "--", *left], timeout_s=Limits(silence_s=_SILENCE_S))

    def leave_marks(self, path: str, texts: Mapping[str, str]) -> None:
        """Leave small files in a folder, as the user to whom the folder belongs; marks that are old are removed.

        Args:
            texts: What is in each file, by its name.

        Raises:
            HostNotReady: That user cannot write there.
        """
        with self._within(path, "written") as folder:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            now_s = 0.0
            for name, text in texts.items():
                handle = os.open(name, flags, 0o600, dir_fd=folder)
                try:
                    os.write(handle, text.encode())
                    now_s = os.fstat(handle).st_mtime  # by the clock of whoever has the files
                finally:
                    os.close(handle)  # a network file system has it now
            for old in _find_marks(folder, before_s=now_s - _MARK_S):
                with suppress(FileNotFoundError):
                    os.unlink(old, dir_fd=folder)

    def read_mark(self, path: str, name: str) -> str:
        """What was left under a name, read as the user to whom the folder belongs; empty where there is no such file.

        Raises:
            HostNotReady: That user cannot read there.
        """
        with self._within(path, "read") as folder:
            try:
                handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            except FileNotFoundError:
                return ""
            try:
                return os.read(handle, _MARK_BYTES).decode(errors="replace")
            finally:
                os.close(handle)

    def remove_mark(self, path: str, name: str) -> None:
        """Remove what was left under a name; no change where there is no such file.

        Raises:
            HostNotReady: It cannot be.
        """
        with self._within(path, "written") as folder, suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)

    @contextmanager
    def _within(self, path: str, done: str) -> Iterator[int]:
        """A handle on a folder, while this process is the user to whom it belongs: what jobs may do there is tried.

        Root of this machine may be nobody on the machine that has the files.
        """
        user = os.geteuid()
        try:
            with ExitStack() as stack:
                folder = _opened(stack, str(self._root), os.O_PATH)
                for part in PurePosixPath(path).parts[1:]:
                    folder = _opened(stack, part, os.O_PATH, folder)
                status = os.fstat(folder)
                user = status.st_uid
                stack.enter_context(_acting_as(status.st_uid, status.st_gid))
                yield folder
        except OSError as error:
            raise HostNotReady(
                f"the folder {path} cannot be {done} by user {user}",
                evidence=f"{error.strerror}: {error.filename or path}",
                fix=f"look at the folder and at the file system that it is on: ls -lan {path}; findmnt -T {path}",
            ) from error

    @contextmanager
    def _above(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """A handle on the folder above, and the last name of the path; errors of the block are told in words."""
        names = PurePosixPath(path).parts[1:]
        try:
            with ExitStack() as stack:
                here = _opened(stack, str(self._root), os.O_RDONLY)
                for name in names[:-1]:
                    if make:
                        _make(here, name, _ABOVE)
                    here = _opened(stack, name, os.O_RDONLY, here)
                yield here, names[-1]
        except OSError as error:
            raise HostNotReady(
                f"the folder {path} cannot be {'made' if make else 'removed'}",
                evidence=f"{error.strerror}: {error.filename or path}",
                fix=f"ls -la {path}; as root, run the same command again",
            ) from error


def find_mounts(mountinfo: str, path: str) -> Iterator[str]:
    """The mount points at or below a path, by the text of /proc/self/mountinfo."""
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if len(fields) > 4:  # noqa: PLR2004 - the fifth field is the mount point
            point = _ESCAPED.sub(_unescaped, fields[4])
            if PurePosixPath(point).is_relative_to(path):
                yield point


def find_filesystem(mountinfo: str, path: str) -> str:
    """Kind and source of the file system that a path is on, by the text of /proc/self/mountinfo; empty if unknown."""
    found, longest = "", -1
    for line in mountinfo.splitlines():
        place, _, kind = line.partition(" - ")
        fields, more = place.split(" "), kind.split(" ")
        if len(fields) > 4 and len(more) > 1:  # noqa: PLR2004 - the fifth field is the mount point
            point = _ESCAPED.sub(_unescaped, fields[4])
            if PurePosixPath(path).is_relative_to(point) and len(point) >= longest:  # of two, the later one is above
                found, longest = f"{more[0]} {_ESCAPED.sub(_unescaped, more[1])}", len(point)
    return found


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 8))


@contextmanager
def _acting_as(user: int, group: int) -> Iterator[None]:
    """Be another user towards files; who is not root stays who they are."""
    if os.geteuid() or not user:
        yield
        return
    before = os.getegid()
    os.setegid(group)
    try:
        os.seteuid(user)
        yield
    finally:
        os.seteuid(0)
        os.setegid(before)


def _find_marks(folder: int, *, before_s: float) -> list[str]:
    """Names of marks that a killed run has left, as far as they are found at once; others' may go meanwhile."""
    old = []
    handle = os.open(".", os.O_RDONLY | _FLAGS, dir_fd=folder)
    try:
        with os.scandir(handle) as found:
            for entry in islice(found, _MOST_ENTRIES):
                with suppress(FileNotFoundError):
                    if entry.name.startswith(MARK) and entry.stat(follow_symlinks=False).st_mtime < before_s:
                        old.append(entry.name)
    finally:
        os.close(handle)
    return old


def _aside(name: str) -> str:
    return f".{name}.removed-"


def _opened(stack: ExitStack, name: str, flags: int, above: int | None = None) -> int:
    handle = os.open(name, flags | _FLAGS, dir_fd=above)
    stack.callback(os.close, handle)
    return handle


def _make(above: int, name: str, mode: int) -> None:
    """Make a folder where there is none; its mode is not cut by the umask."""
    try:
        os.mkdir(name, 0o700, dir_fd=above)
    except FileExistsError:
        return
    with ExitStack() as stack:
        os.fchmod(_opened(stack, name, os.O_RDONLY, above), mode)


def _drop(above: int, name: str) -> None:
    """Remove folders, the innermost first, and none where there is anything else."""
    if any(files for _, _, files, _ in os.fwalk(name, dir_fd=above)):
        raise OSError(ENOTEMPTY, os.strerror(ENOTEMPTY))
    for _, inner, _, here in os.fwalk(name, topdown=False, dir_fd=above):
        for one in inner:
            os.rmdir(one, dir_fd=here)
    os.rmdir(name, dir_fd=above)


def _is_empty(handle: int) -> bool:
    try:
        with os.scandir(f"/proc/self/fd/{handle}") as found:
            return all(entry.name.startswith(MARK) for entry in found)
    except OSError:
        return False


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
