"""The process's own streams, whatever world it was started in: closed, full, or of an encoding that lacks letters."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError, HostNotReady

if TYPE_CHECKING:
    from typing_extensions import Buffer

_STDIN, _STDOUT, _STDERR = range(3)
_UNREAD: Final = 1  # as click has it
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


class Stdout(io.FileIO):
    """What is behind stdout; what is wrong with it is told once, and what comes later goes nowhere."""

    def __init__(self, number: int = _STDOUT) -> None:
        super().__init__(number, "wb", closefd=False)
        self._number = number
        self._lost = False

    def write(self, content: Buffer, /) -> int:
        """Write it.

        Raises:
            HostNotReady: It cannot be written.
            BrokenPipeError: Nobody reads any more.
        """
        if self._lost:
            return memoryview(content).nbytes
        try:
            return super().write(content)
        except BrokenPipeError:
            self._lost = True
            raise
        except OSError as error:
            self._lost = True
            raise lost_output(self._number, error) from error


def prepare_streams() -> None:
    """Open closed streams on /dev/null, so that no other file gets their numbers, and tell of losses in our words."""
    for number in (_STDIN, _STDOUT, _STDERR):
        if not _is_open(number):
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: those below it are open
    sys.stdin = sys.stdin or _nothing("r")
    sys.stderr = sys.stderr or _nothing("w")
    sys.stdout = sys.stdout or _nothing("w")  # not by its number, which may be another file's since
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.fileno() == _STDOUT:
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(Stdout()),
            encoding=sys.stdout.encoding,
            errors="backslashreplace",
            line_buffering=sys.stdout.line_buffering,
            write_through=sys.stdout.write_through,
        )


def flush_result() -> None:
    """Write what is left: what is wrong with stdout is an error of this run; whoever has seen enough of it is none.

    Raises:
        HostNotReady: It cannot be written.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        sys.exit(_UNREAD)


def leave_streams() -> None:
    """Write what is left, without a word: Python itself would print a traceback of it."""
    with suppress(GpuprovError, OSError, ValueError):
        sys.stdout.flush()


def takes_all_letters() -> bool:
    """Whether stdout's encoding has every letter; where it has not, JSON is written in ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def lost_output(number: int, error: OSError) -> HostNotReady:
    """What is wrong with a stream of this process, by its number."""
    return explain_lost_result(error, _place(number))


def explain_lost_result(error: OSError, place: str) -> HostNotReady:
    """What is wrong with stdout.

    Args:
        error: What the system said.
        place: Where stdout leads to.
    """
    room = error.errno in _NO_ROOM and Path(place).is_file()
    way = f"df -h {Path(place).parent}  # free some space there" if room else "append to the command: > FILE"
    return HostNotReady(
        "the result could not be written to stdout",
        evidence=f"{place}: {error.strerror}; only the output is lost; the changes of the command stay",
        fix=f"{way}; see what is there before you repeat a command: gpuprov list; gpuprov jobs",
    )


def _place(number: int) -> str:
    try:
        return str(Path(f"/proc/self/fd/{number}").readlink())
    except OSError:
        return "stdout"


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _nothing(mode: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.FileIO(os.devnull, mode), encoding="utf-8")
