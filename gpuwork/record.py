"""What the record of a run says: when something was, and why it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuwork.shared_folder import read_part

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

_TAIL_BYTES: Final = 4096
_REASON: Final = 300


def utc_moment(at: datetime) -> str:
    """A time in UTC, to the second."""
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def why_failed(log: Path, status: int) -> str:
    """The exit status, and the last line of the log."""
    shown = last_line(log)
    return f"exit status {status}{': ' if shown else ''}{shown}"[:_REASON]


def last_line(log: Path) -> str:
    """The last line that is not empty, without what cannot be printed; "" if there is none."""
    content, _ = read_part(log, start=-_TAIL_BYTES, most_bytes=_TAIL_BYTES) or (b"", 0)
    lines = content.decode(errors="replace").split("\n")
    words = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return "".join(letter for letter in words if letter.isprintable())
