"""What the record of a run says: when something was, and why it failed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

_TAIL_BYTES: Final = 4096
_REASON: Final = 300


def moment(at: datetime) -> str:
    """A time in UTC, to the second."""
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def why_failed(log: Path, status: int) -> str:
    """The exit status, and the last line of the log."""
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").split("\n")
    words = next((line.strip() for line in reversed(lines) if line.strip()), "")
    shown = "".join(letter for letter in words if letter.isprintable())
    return f"exit status {status}{': ' if shown else ''}{shown}"[:_REASON]
