"""Files and folders that a node gives, written on this machine: the node may be hostile, and what it says has limits.

They are written into a folder that nobody else can enter, beside the target, and get their name in one move when all of
them are there. Only regular files and folders are made, each new: no link is ever followed, for none is there.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, HostNotReady
from gpuprov.core.printable import printable
from gpuprov.core.units import GIB
from gpuprov.drivers.node_files import unreadable
from gpuprov.drivers.tar_stream import BadTar, TarStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from gpuprov.core.errors import GpuprovError
    from gpuprov.drivers.base import PathKind
    from gpuprov.drivers.tar_stream import TarEntry

MOST_ENTRIES: Final = 1_000_000
MOST_BYTES: Final = 10**12
MOST_SKIPPED: Final = 20  # that are named
_RESERVE_SHARE = 20  # of the disk, that stays free: a node shall not fill it up
_RESERVE_BYTES = GIB  # and no more than that
_YEAR_9999_S = 253_402_300_799


class IncomingFiles:
    """Takes the tar of a node's file or folder, piece by piece; the block ends with the target there, or with nothing.

    Args:
        node: The node's name, for errors.
        path: What is copied from it, for errors.
        kind: What that was when it was looked at.
        target: The path that it gets; the folder above it exists, and a file there is replaced.
        wants: Whether something is written, by its path below the folder; None for everything.
        quiet: Whether a link is only counted, by its path; None for no link.

    Attributes:
        files: How many files have come.
        total_bytes: Their sizes.
        skipped: What was left out, and why, in words; the first ones.
        left_out: How many those are altogether.
        quiet: How many links were only counted.
    """

    def __init__(
        self,
        *,
        node: str,
        path: str,
        kind: PathKind,
        target: Path,
        wants: Callable[[tuple[str, ...]], bool] | None = None,
        quiet: Callable[[tuple[str, ...]], bool] | None = None,
    ) -> None:
        self.files = self.total_bytes = self.left_out = self.quiet = 0
        self.skipped: list[str] = []
        self._node, self._path, self._kind, self._target, self._wants = node, path, kind, target, wants
        self._is_quiet = quiet
        self._passed_over = False  # what comes now
        self._stream = TarStream(self._begin, self._write)
        self._entries = 0
        self._open: tuple[int, TarEntry] | None = None
        self._closed = False
        self._lock = threading.Lock()  # pieces come from a thread of the driver, which may outlive the block

    def __enter__(self) -> IncomingFiles:  # noqa: PYI034 - Self needs Python 3.11
        """Make a place beside the target; handles lead there, so that nobody can put another one in its place."""
        name = f".gpuprov-cp-{secrets.token_hex(6)}"
        flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        with ExitStack() as stack:
            try:
                above = _opened(stack, self._target.parent, flags & ~os.O_NOFOLLOW)
                (above / name).mkdir(0o700)
                self._place = _opened(stack, above / name, flags)
                if self._place.stat().st_uid != os.geteuid():
                    raise PermissionError(errno.EPERM, "another process replaced the new folder")
            except OSError as error:
                raise self._unwritten(self._target, error) from error
            stack.callback(shutil.rmtree, above / name, ignore_errors=True)
            self._final = above / self._target.name
            self._handles = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it its name, where all of it came; take it away, where not."""
        with self._lock:
            self._closed = True
            try:
                if kind is None:
                    self._finish()
            finally:
                self._close()
                self._handles.close()

    def take(self, piece: bytes) -> None:
        """Take a piece of the tar in.

        Raises:
            EngineError: It is none, goes over a limit, leads out of the target, or cannot be written here.
        """
        with self._lock:
            if self._closed:
                return
            try:
                self._stream.take(piece)
            except BadTar as error:
                raise self._bad(str(error)) from error

    @property
    def left_out_words(self) -> str:
        """What was left out, in a line; "" if nothing was."""
        return name_left_out(self.skipped, self.left_out)

    def _finish(self) -> None:
        try:
            self._stream.finish()
        except BadTar as error:
            raise self._bad(str(error)) from error
        self._close()
        item = self._place / "item"
        try:
            if self._kind == "file":
                item.replace(self._final)
            else:
                item.rename(self._final)
        except FileNotFoundError as error:
            raise self._bad("it is empty") from error
        except OSError as error:
            raise self._unwritten(self._target, error) from error

    def _begin(self, entry: TarEntry) -> None:
        self._close()
        self._refuse_unasked(entry)
        below = entry.parts if self._kind == "folder" else ()
        self._passed_over = self._wants is not None and not self._wants(below)
        if self._passed_over:
            return
        if entry.kind == "link" and self._is_quiet is not None and self._is_quiet(below):
            self.quiet += 1
            return
        if entry.kind not in ("file", "folder"):
            self._skip("/".join(below), entry.kind)
            return
        path = self._place.joinpath("item", *below)
        try:
            if entry.kind == "folder":
                path.mkdir(entry.mode | 0o700)
                return
            self._refuse_full(entry)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._open = (os.open(path, flags, entry.mode | 0o600), entry)
        except FileExistsError as error:
            raise self._bad(f"{self._shown(below)} was sent twice") from error
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._bad(f"{self._shown(below)} was sent without its folder") from error
        except OSError as error:
            raise self._unwritten(Path(*below) if below else self._target, error) from error
        self.files += 1
        self.total_bytes += entry.size

    def _refuse_unasked(self, entry: TarEntry) -> None:
        """Refuse what cannot be part of what was asked for."""
        self._entries += 1
        if self._entries > MOST_ENTRIES:
            raise self._beyond(f"it has more than {MOST_ENTRIES} files and folders")
        if self._entries == 1 and entry.kind != self._kind:
            raise self._bad(f"it is a {entry.kind} now, and was a {self._kind}")
        if self._entries == 1 and self._kind == "folder" and entry.parts:
            raise self._bad("its first entry is not the folder itself")
        if self._entries > 1 and (self._kind == "file" or not entry.parts):
            raise self._bad("more was sent than was requested")

    def _write(self, piece: bytes) -> None:
        if self._passed_over:
            return
        if self._open is None:
            raise BadTar("content of nothing")
        handle, entry = self._open
        left = memoryview(piece)
        try:
            while left:
                left = left[os.write(handle, left) :]
        except OSError as error:
            raise self._unwritten(Path(*entry.parts) if entry.parts else self._target, error) from error

    def _close(self) -> None:
        if self._open is not None:
            handle, entry = self._open
            self._open = None
            changed_s = min(entry.changed_s, _YEAR_9999_S)
            with suppress(OSError):
                os.utime(handle, (changed_s, changed_s))
            os.close(handle)

    def _refuse_full(self, entry: TarEntry) -> None:
        if self.total_bytes + entry.size > MOST_BYTES:
            raise self._beyond(f"it has more than {MOST_BYTES} bytes")
        disk = shutil.disk_usage(self._place)
        reserve = min(_RESERVE_BYTES, disk.total // _RESERVE_SHARE)
        if entry.size > disk.free - reserve:
            raise self._full(f"{entry.size} bytes are to be copied, {disk.free} are free, of which {reserve} stay free")

    def _skip(self, path: str, kind: str) -> None:
        self.left_out += 1
        if len(self.skipped) < MOST_SKIPPED:
            self.skipped.append(f"{printable(path, lines=False)} (a {kind})")

    def _shown(self, parts: tuple[str, ...]) -> str:
        return printable("/".join(parts), lines=False) if parts else self._path

    def _bad(self, evidence: str) -> EngineError:
        return unreadable(self._node, self._path, f"the node sent a damaged or hostile archive: {evidence}")

    def _beyond(self, evidence: str) -> EngineError:
        return EngineError(
            f"{self._path} of {self._node} is too large",
            evidence=evidence,
            fix=f"copy parts of it, or pack it in the node: gpuprov shell {self._node}",
        )

    def _full(self, evidence: str) -> EngineError:
        folder = printable(str(self._target.parent), lines=False)
        return EngineError(
            f"no space left for {self._path} of {self._node} on this host",
            evidence=evidence,
            fix=f"free some space, or copy to another disk: df -h {folder}",
        )

    def _unwritten(self, path: Path, error: OSError) -> EngineError:
        said = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return self._full(said)
        shown = printable(str(path), lines=False)
        return EngineError(
            f"cannot write {shown}",
            evidence=said,
            fix=f"check the permissions: ls -ld {printable(str(self._target.parent), lines=False)}",
        )


@contextmanager
def receiving_into(folder: Path, in_the_way: Callable[[str], GpuprovError]) -> Iterator[Path]:
    """A path for what comes, in a folder that is made for it; nothing is left there behind the block.

    Args:
        folder: Where it goes in the end.
        in_the_way: Makes the error of a folder that cannot be made, from the reason.
    """
    was_there = folder.exists()
    place = folder / f".pull-{secrets.token_hex(6)}"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise in_the_way(error.strerror or str(error)) from error
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if not was_there:
            with suppress(OSError):  # something was put into it
                folder.rmdir()


def move_runs(place: Path, folder: Path, names: Iterable[str]) -> None:
    """Move runs from where they were received into their folder.

    Raises:
        HostNotReady: They cannot be moved.
    """
    try:
        for name in names:
            (place / name).rename(folder / name)
    except OSError as error:
        shown = printable(str(folder), lines=False)
        raise HostNotReady(
            f"the runs cannot be moved to {shown}", evidence=str(error), fix=f"ls -ld {shown} {shown}/*"
        ) from error


def name_left_out(skipped: Sequence[str], count: int) -> str:
    """What was left out, in a line; "" if nothing was."""
    if not count:
        return ""
    more = f", and {count - len(skipped)} more" if count > len(skipped) else ""
    return f"skipped (only files and folders are copied): {', '.join(skipped)}{more}"


def _opened(stack: ExitStack, path: Path, flags: int) -> Path:
    """A path that leads through a handle on a folder, wherever that is moved."""
    handle = os.open(path, flags)
    stack.callback(os.close, handle)
    return Path(f"/proc/self/fd/{handle}")
