"""The record of a run: how it is written, when something was, and why it failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import write
from gpuwork.untrusted_files import read_part

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from gpuprov.shapes.base import Shape

ERROR: Final = "error: "
NEXT: Final = "next: "
_TAIL_BYTES: Final = 4096
_REASON: Final = 300


def render(record: Shape) -> str:
    """A record as a file has it, for people too."""
    return json.dumps(write(record), indent=1) + "\n"


def utc_moment(at: datetime) -> str:
    """A time in UTC, to the second."""
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def why_failed(log: Path, status: int) -> str:
    """The exit status, and the last words of the log."""
    shown = end_of_log(log)
    return f"exit status {status}{': ' if shown else ''}{shown}"[:_REASON]


def last_line(log: Path) -> str:
    """The last line that is not empty, without what cannot be printed; "" if there is none."""
    return (_last_lines(log) or [""])[-1]


def end_of_log(log: Path) -> str:
    """The last line; of an error in three parts, what failed and its evidence."""
    lines = _last_lines(log)
    at = max((at for at, line in enumerate(lines) if line.startswith(ERROR)), default=None)
    if at is None or not lines[-1].startswith(NEXT):
        return (lines or [""])[-1]
    what, *evidence = lines[at:-1]  # what to type next is for whoever reads the log
    return ": ".join([what.removeprefix(ERROR), *evidence[-1:]])


def _last_lines(log: Path) -> list[str]:
    """The last lines that are not empty, without what cannot be printed."""
    content, _ = read_part(log, start=-_TAIL_BYTES, most_bytes=_TAIL_BYTES) or (b"", 0)
    lines = (line.strip() for line in content.decode(errors="replace").split("\n"))
    return ["".join(filter(str.isprintable, line)) for line in lines if line]
