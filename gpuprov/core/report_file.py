"""Files that a report is written to: refused before the run where they cannot be, and never seen half-written."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedWriter


class ReportFile:
    """A file to be written once, at the end of a run; its folder is known to take it.

    Args:
        path: As the user gave it.
        option: The option it came with, for the error.
        kind: What is written, in a word.
        new: Nothing may be there yet, and only this user may read what is written.
        after: What follows the path in a command that is suggested.

    Raises:
        UsageError: A file cannot be made there, or something is there that is no file.
    """

    def __init__(self, path: str, *, option: str, kind: str = "report", new: bool = False, after: str = "") -> None:
        self.path = path
        self._option = option
        self._kind = kind
        self._new = new
        self._after = after
        try:
            self._target = Path(path).resolve()  # a link stays one, and what it leads to is replaced
            self._draft = self._target.parent / f".gpuprov-{secrets.token_hex(6)}.part"
            if not self._target.parent.is_dir():
                raise self._refusal(f"{self._target.parent} is no folder")
            self._refuse_what_is_no_file()
            with self._open_draft():
                pass
            self._draft.unlink()
        except (OSError, ValueError, RuntimeError) as error:  # a NUL in it; links in a circle
            raise self._refusal(str(error)) from error

    def write(self, content: str | bytes) -> None:
        """Make or replace the file in one step; a reader sees the old content or the new one.

        Raises:
            HostNotReady: The disk is full, the folder has gone, or a file that must be new is there since.
        """
        with self.drafted() as draft, draft.open("r+b") as file:
            file.write(content.encode() if isinstance(content, str) else content)

    @contextlib.contextmanager
    def drafted(self) -> Iterator[Path]:
        """The same in pieces: an empty file to be written, which takes its place at the end of the block.

        Raises:
            HostNotReady: As `write`.
        """
        try:
            with self._open_draft():
                pass
            yield self._draft
            with self._draft.open("rb") as file:
                os.fsync(file.fileno())
            if self._new:
                os.link(self._draft, self._target)  # unlike a rename, refuses where something is
                self._draft.unlink()
            else:
                self._draft.replace(self._target)
        except OSError as error:
            raise HostNotReady(
                f"the {self._kind} could not be written to {self.path}",
                evidence=str(error),
                fix=f"df -h {self._target.parent}",
            ) from error
        finally:
            with contextlib.suppress(OSError):
                self._draft.unlink()

    def same_as(self, other: ReportFile) -> bool:
        """Whether both are one file."""
        return self._target == other._target

    def _refuse_what_is_no_file(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            mode = self._target.stat().st_mode
            if self._new:
                raise self._refusal(f"{self._target} exists and is never overwritten")
            if not stat.S_ISREG(mode):
                kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
                raise self._refusal(f"{self._target} is {kind}")
            if not os.access(self._target, os.W_OK):
                raise self._refusal(f"{self._target} is not writable")

    def _open_draft(self) -> BufferedWriter:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        return os.fdopen(os.open(self._draft, flags, 0o600 if self._new else 0o666), "wb")

    def _refusal(self, evidence: str) -> UsageError:
        name = Path(self.path).name or self._kind
        instead = f"gpuprov {self._kind} ./another-{name}{self._after}" if self._new else f"{self._option} ./{name}"
        return UsageError(
            f"{self._option}: a {self._kind} cannot be written to {self.path!r}",
            evidence=evidence,
            fix=f"choose a new file in a writable folder: {instead}"
            if self._new
            else f"choose a file in a writable folder: {instead}",
        )
