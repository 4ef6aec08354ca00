"""Processes that have ended, but are still listed: nobody has asked how they ended."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.excerpt import excerpt
from gpuprov.machine.process_stat import parse_stat

if TYPE_CHECKING:
    from pathlib import Path

_ZOMBIE: Final = "Z"
_NAME_MOST: Final = 40


@dataclass(frozen=True, kw_only=True)
class Zombie:
    """One of them.

    Attributes:
        started: When, in the kernel's ticks: numbers are used again.
    """

    pid: int
    name: str
    started: str


def find_zombies(root: Path) -> frozenset[Zombie]:
    """Processes of which no thread is left; where only the first thread has ended, the process goes on.

    Args:
        root: Where /proc is looked up.
    """
    found = set()
    for path in root.glob("proc/[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it is gone meanwhile
            stat = parse_stat(path.read_text(errors="replace"))
            if stat.state == _ZOMBIE and stat.threads == 1:
                name = excerpt(stat.name, _NAME_MOST)
                found.add(Zombie(pid=int(path.parent.name), name=name, started=stat.started))
    return frozenset(found)
