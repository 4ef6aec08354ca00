"""What processes have done so far, by which somebody who waits for them sees that they go on."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Activities = Mapping[tuple[int, int], "Activity"]  # of each process, by its pid and when it began

_PROC = Path("/proc")
# Of the fields of /proc/PID/stat; the name before them may hold anything: when it began, its parent, its and its
# children's use of the CPU.
_START, _PARENT, _CPU = 21, 3, range(13, 17)
# For a shell anywhere: its own pid, then the stat of each process and the bytes that it has moved.
WORK_LINE: Final = "echo $$; exec grep -sH -e '^[0-9]* (' -e '^[rw]char:' /proc/[0-9]*/stat /proc/[0-9]*/io"
_STAT_LINE: Final = re.compile(r"/proc/(\d{1,9})/stat:\1 \(.*\)( \S [-\d ]+)")
_MOVED_LINE: Final = re.compile(r"/proc/(\d{1,9})/io:[rw]char: (\d{1,19})")


@dataclass(frozen=True, kw_only=True)
class Activity:
    """What a process, its children and theirs have done so far.

    Attributes:
        ticks: Of the CPU, as the kernel counts them.
        moved_bytes: Read and written, as far as this user may see it.
    """

    ticks: int = 0
    moved_bytes: int = 0


def find_activity(pid: int, *, proc: Path = _PROC) -> Activity:
    """Of a process that may have ended; what children did that have ended counts with the CPU alone."""
    table = _table(proc)
    family = _family(pid, table)
    return Activity(
        ticks=sum(table[one].ticks for one in family if one in table),
        moved_bytes=sum(_moved_bytes(one, proc) for one in family),
    )


def find_work_below(pid: int, *, proc: Path = _PROC) -> Activities:
    """Of all that the children of a process have started, and what that started, each by itself."""
    table = _table(proc)
    children = {one for one, line in table.items() if line.parent == pid}
    below = _family(pid, table) - children - {pid}
    return {
        (one, table[one].began): Activity(ticks=table[one].ticks, moved_bytes=_moved_bytes(one, proc)) for one in below
    }


def parse_work(text: str) -> Activities:
    """Of all processes of a machine but one, as WORK_LINE prints it there; of who is that one says its first line."""
    own, _, rest = text.partition("\n")
    ticks: dict[int, tuple[int, int]] = {}
    moved: dict[int, int] = {}
    for line in rest.splitlines():
        if found := _MOVED_LINE.fullmatch(line):
            moved[int(found[1])] = moved.get(int(found[1]), 0) + int(found[2])
        elif found := _STAT_LINE.fullmatch(line):
            with suppress(ValueError, IndexError):
                fields = found[2].split()
                ticks[int(found[1])] = (int(fields[_START - 2]), _ticks(fields))
    return {
        (pid, began): Activity(ticks=used, moved_bytes=moved.get(pid, 0))
        for pid, (began, used) in ticks.items()
        if str(pid) != own
    }


def grown(before: Activities, now: Activities) -> Activity:
    """What those did between two looks that were there at both; a command that asks how things are is gone by then."""
    pairs = [(before[key], now[key]) for key in before.keys() & now.keys()]
    return Activity(
        ticks=sum(max(0, later.ticks - earlier.ticks) for earlier, later in pairs),
        moved_bytes=sum(max(0, later.moved_bytes - earlier.moved_bytes) for earlier, later in pairs),
    )


@dataclass(frozen=True, kw_only=True)
class _Line:
    """Of a process, from its /proc/PID/stat."""

    parent: int
    began: int
    ticks: int


def _table(proc: Path) -> dict[int, _Line]:
    table = {}
    for path in proc.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it ended meanwhile
            fields = path.read_text().rpartition(")")[2].split()
            table[int(path.parent.name)] = _Line(
                parent=int(fields[_PARENT - 2]), began=int(fields[_START - 2]), ticks=_ticks(fields)
            )
    return table


def _ticks(fields: Sequence[str]) -> int:
    return sum(map(int, fields[_CPU.start - 2 : _CPU.stop - 2]))


def _family(pid: int, table: Mapping[int, _Line]) -> set[int]:
    """A process, its children and theirs."""
    family, more = {pid}, {pid}
    while more:
        more = {child for child, line in table.items() if line.parent in more} - family
        family |= more
    return family


def _moved_bytes(pid: int, proc: Path) -> int:
    with suppress(OSError, ValueError):
        lines = (proc / str(pid) / "io").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("rchar:", "wchar:")))
    return 0
