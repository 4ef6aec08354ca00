"""What containers of `gpuprov run` had on this host: a file for each month, to which lines are only added.

A line says all of a span, and a later one of the same span comes in addition: who reads them puts them together. So
nobody locks or rewrites anything, and a killed writer leaves at most half a line.
"""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import encode, read
from gpuprov.shapes.run_span import RunSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FOLDER = Path("/var/lib/gpuprov/runs")
KEPT_MONTHS: Final = 13
MOST_BYTES: Final = 64 * 1024**2  # of a month
_NAME: Final = re.compile(r"[0-9]{4}-[0-9]{2}\.jsonl", re.ASCII)
_FOLDER_MODE, _OWN_FOLDER_MODE, _FILE_MODE = 0o2770, 0o700, 0o660
_SAFE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ADD: Final = os.O_RDWR | os.O_APPEND | _SAFE


@dataclass(frozen=True, kw_only=True)
class RecordedSpans:
    """What is on record.

    Attributes:
        spans: In order of writing.
        damaged: How many lines are none.
    """

    spans: tuple[RunSpan, ...] = ()
    damaged: int = 0


@dataclass(frozen=True, kw_only=True)
class RunRecords:
    """The files.

    Attributes:
        folder: Where they are; FOLDER where None. Root makes it, or whoever may.
        group: Id of the group whose members may read and add to them; root alone where None.
    """

    folder: Path | None = None
    group: int | None = None

    @property
    def place(self) -> Path:
        """The folder."""
        return self.folder or FOLDER

    def prepare(self) -> bool:
        """Make the folder, and give it to the group; whether there was anything to do.

        Raises:
            OSError: It cannot be.
        """
        made = not self.place.exists()
        self.place.mkdir(mode=_OWN_FOLDER_MODE, parents=True, exist_ok=True)
        seen = self.place.lstat()
        if not stat.S_ISDIR(seen.st_mode):
            raise NotADirectoryError(f"{self.place} is not a folder")
        group = os.getegid() if self.group is None else self.group
        mode = _OWN_FOLDER_MODE if self.group is None else _FOLDER_MODE
        if (seen.st_gid, stat.S_IMODE(seen.st_mode)) == (group, mode):
            return made
        os.chown(self.place, -1, group)
        self.place.chmod(mode)
        return True

    def add(self, spans: Iterable[RunSpan]) -> None:
        """Add a line for each.

        Raises:
            OSError: The disk or the file is full, or this user may not.
        """
        text = b"".join(encode(span) + b"\n" for span in spans)
        if not text:
            return
        if os.geteuid() == 0 or not self.place.exists():
            self.prepare()
        with _closing(self._open(_month_of(time.time()))) as file:
            size = os.fstat(file).st_size
            if size + len(text) > MOST_BYTES:
                raise OSError(f"the record of this month is full: it has {size} bytes")
            half = size and os.pread(file, 1, size - 1) != b"\n"  # its writer was killed, or the disk was full
            whole = b"\n" + text if half else text
            written = os.write(file, whole)
            if written < len(whole):
                raise OSError(f"{written} of {len(whole)} bytes could be written: the disk is full")

    def read(self, since_s: float) -> RecordedSpans:
        """What was written since a moment, in seconds since 1970, or a little earlier; nothing if there is no record.

        Raises:
            OSError: This user may not read it.
        """
        spans: list[RunSpan] = []
        damaged = 0
        for month in sorted(self._months()):
            if month < _month_of(max(0.0, since_s)):
                continue
            with suppress(FileNotFoundError), _closing(os.open(self._path(month), os.O_RDONLY | _SAFE)) as file:
                found = [_read_line(line) for line in _read_all(file).splitlines() if line.strip()]
                spans += filter(None, found)
                damaged += found.count(None)
        return RecordedSpans(spans=tuple(spans), damaged=damaged)

    def _path(self, month: str) -> Path:
        return self.place / f"{month}.jsonl"

    def _months(self) -> list[str]:
        try:
            return [path.stem for path in self.place.iterdir() if _NAME.fullmatch(path.name)]
        except FileNotFoundError:
            return []

    def _open(self, month: str) -> int:
        """The file of a month, to be added to; where it is new, those that are too old go."""
        path = self._path(month)
        for _ in range(2):
            with suppress(FileNotFoundError):
                return os.open(path, _ADD)
            with suppress(FileExistsError):
                made = os.open(path, _ADD | os.O_CREAT | os.O_EXCL, _FILE_MODE)
                os.fchmod(made, _FILE_MODE)  # whatever the umask
                for old in sorted(self._months())[:-KEPT_MONTHS]:
                    with suppress(OSError):
                        self._path(old).unlink()
                return made
        raise FileNotFoundError(path)


@contextmanager
def _closing(file: int) -> Iterator[int]:
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError("the record of this month is not a regular file")
        yield file
    finally:
        os.close(file)


def _read_line(line: bytes) -> RunSpan | None:
    try:
        return read(RunSpan, line)
    except ValueError:
        return None


def _read_all(file: int) -> bytes:
    """Of a file that may grow, and that somebody may have made larger than any record."""
    parts = []
    left = MOST_BYTES
    while left > 0 and (part := os.read(file, min(left, 1024**2))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _month_of(second: float) -> str:
    return time.strftime("%Y-%m", time.gmtime(second))
