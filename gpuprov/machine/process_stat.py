"""What /proc/PID/stat says of a process, or of one of its threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Fields behind the name, counted from the state
_STATE: Final = 0
_THREADS: Final = 17
_STARTED: Final = 19


@dataclass(frozen=True, kw_only=True)
class ProcessStat:
    """A part of it.

    Attributes:
        name: As the process calls itself.
        state: One letter.
        threads: How many it has; of a process whose first thread has ended, that one counts.
        started: When, in the kernel's ticks.
    """

    name: str
    state: str
    threads: int
    started: str


def parse_stat(text: str) -> ProcessStat:
    """Split the line at its last parenthesis: a name may hold any character.

    Raises:
        ValueError: It is not such a line.
        IndexError: It is cut off.
    """
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return ProcessStat(
        name=head.partition("(")[2], state=fields[_STATE], threads=int(fields[_THREADS]), started=fields[_STARTED]
    )
