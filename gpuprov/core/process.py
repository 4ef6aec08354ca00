"""Which process made something, written so that a later one can tell whether it still lives."""

from __future__ import annotations

import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_PARTS = 5
# Of the fields of /proc/PID/stat; the name before them may hold anything: when it began, its parent, its and its
# children's use of the CPU.
_START, _PARENT, _CPU = 21, 3, range(13, 17)


def describe_owner(pid: int, *, proc: Path = _PROC) -> str:
    """A process in words: machine, boot, pid namespace, pid and when it began.

    Raises:
        OSError: There is no such process.
    """
    return " ".join((platform.node() or "?", boot_id(proc=proc), _namespace(proc), str(pid), _began(pid, proc)))


def boot_id(*, proc: Path = _PROC) -> str:
    """A word that changes when this machine is booted."""
    return (proc / "sys/kernel/random/boot_id").read_text().strip()


def is_gone(owner: str, *, proc: Path = _PROC) -> bool:
    """Whether the process that `describe_owner` described has certainly ended.

    A process of another machine, or of a namespace that one cannot see into, may live.
    """
    parts = owner.split(" ")
    if len(parts) != _PARTS or parts[0] != (platform.node() or "?"):
        return False
    _, boot, namespace, pid, began = parts
    try:
        if boot != boot_id(proc=proc):
            return True
        return namespace == _namespace(proc) and not (pid.isdecimal() and _lives(int(pid), began, proc))
    except OSError:
        return False


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
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in proc.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it ended meanwhile
            fields = path.read_text().rpartition(")")[2].split()
            one = int(path.parent.name)
            parents[one] = int(fields[_PARENT - 2])
            ticks[one] = sum(map(int, fields[_CPU.start - 2 : _CPU.stop - 2]))
    family, more = {pid}, {pid}
    while more:
        more = {child for child, parent in parents.items() if parent in more} - family
        family |= more
    return Activity(
        ticks=sum(ticks.get(one, 0) for one in family), moved_bytes=sum(_moved_bytes(one, proc) for one in family)
    )


def _moved_bytes(pid: int, proc: Path) -> int:
    with suppress(OSError, ValueError):
        lines = (proc / str(pid) / "io").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("rchar:", "wchar:")))
    return 0


def _lives(pid: int, began: str, proc: Path) -> bool:
    try:
        return _began(pid, proc) == began
    except FileNotFoundError:
        return False


def _began(pid: int, proc: Path) -> str:
    fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return fields[_START - 2]


def _namespace(proc: Path) -> str:
    return str((proc / "self/ns/pid").readlink())
