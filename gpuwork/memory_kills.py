"""Whether the kernel killed processes for lack of memory: what the control group of this process counts.

A group of version 2 counts in `memory.events`, also for the groups within it; one of version 1 in `memory.oom_control`,
for itself alone. Both count every kill, whoever set the limit, and also where the whole machine has no memory left.
"""

from __future__ import annotations

import platform
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.limits import GIB, MIB
from gpuwork.control_group import PROC, ControlGroup, find_groups, read_number, read_piece
from gpuwork.shared_folder import write_file
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from pathlib import Path

KILLED: Final = 137
OUT_OF_MEMORY: Final = "out of memory"
RECENT_S: Final = 10.0  # what was killed for memory may need so long to give it all back
_COUNTERS: Final = {"cgroup2": "memory.events", "cgroup": "memory.oom_control"}
_LIMITS: Final = {"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}
_KILLS: Final = re.compile(rb"oom_kill ([0-9]{1,18})")
_TOTAL: Final = re.compile(rb"MemTotal: +([0-9]{1,15}) kB")
_NOTE: Final = re.compile(r"(\S{1,300}) (\S{1,100}) ([0-9]{1,18})\n", re.ASCII)  # node, life, count
_KIB: Final = 1024


class MemoryGroup(ControlGroup):
    """A control group that limits memory."""

    def count_kills(self) -> int | None:
        """How many of its processes were killed for lack of memory; None if it does not say."""
        found = _KILLS.search(read_piece(self.folder / _COUNTERS[self.kind]))
        return int(found[1]) if found else None

    def find_limit(self) -> int | None:
        """The bytes that it may have; None without a limit."""
        limits = (read_number(folder / _LIMITS[self.kind]) for folder in self.folders())
        return min((limit for limit in limits if limit is not None), default=None)


class MemoryKills:
    """What the kernel kills of the group of this process from now on."""

    def __init__(self, *, proc: Path = PROC, note: Path | None = None) -> None:
        """Look for the first time.

        Args:
            proc: Where the kernel tells of processes.
            note: A file that keeps what was counted, for whoever comes after this process is killed too.
        """
        self._proc = proc
        self._group = find_memory_group(proc)
        self._note = note
        self._grew_at: float | None = None
        self._count = self._group.count_kills() if self._group else None
        self._keep()

    def look(self) -> None:
        """Look again; as often as it is to be told what was killed when."""
        count = self._group.count_kills() if self._group else None
        if count is not None and self._count is not None and count > self._count:
            self._grew_at = time.monotonic()
            self._count = count
            self._keep()

    def explain(self, status: int, reason: str) -> str:
        """Why a command ended with a status: as `reason` says, unless something was killed shortly before."""
        self.look()
        if self._grew_at is None or time.monotonic() - self._grew_at > RECENT_S:
            return reason
        words = f"{OUT_OF_MEMORY} ({describe_limit(self._group, self._proc)})"
        return words if status == KILLED else f"{reason}; shortly before, a process of its node ran {words}"

    def _keep(self) -> None:
        if self._note is not None and self._group is not None and self._count is not None:
            words = f"{platform.node()} {_life(self._group, self._proc)} {self._count}\n"
            with suppress(OSError):
                write_file(self._note, words, durable=False)


def _life(group: MemoryGroup, proc: Path) -> str:
    """What tells a group from the one before, of a node or a service that was started again and counts from 0."""
    boot = read_piece(proc / "sys/kernel/random/boot_id").decode(errors="replace").strip()
    with suppress(OSError):
        return f"{group.folder.stat().st_ino}@{boot}"
    return boot


def ran_out(reason: str | None) -> bool:
    """Whether this is why a command was killed."""
    return (reason or "").startswith(OUT_OF_MEMORY)


def explain_loss(note: Path, *, proc: Path = PROC) -> str | None:
    """Why the process that kept this note was lost: None unless something of its group was killed since."""
    told = _NOTE.fullmatch((read_limited(note) or b"").decode(errors="replace"))
    group = find_memory_group(proc)
    count = group.count_kills() if group else None
    if told is None or group is None or count is None or count <= int(told[3]):
        return None
    if (told[1], told[2]) != (platform.node(), _life(group, proc)):
        return None
    return f"{OUT_OF_MEMORY} ({describe_limit(group, proc)})"


def find_memory_group(proc: Path = PROC) -> MemoryGroup | None:
    """The group of this process that counts kills; None if there is none, or it cannot be seen."""
    found = (MemoryGroup(folder=one.folder, top=one.top, kind=one.kind) for one in find_groups("memory", proc))
    return next((group for group in found if group.count_kills() is not None), None)


def describe_limit(group: MemoryGroup | None, proc: Path) -> str:
    """The limit in words; where the machine has less, that."""
    found = _TOTAL.search(read_piece(proc / "meminfo"))
    total = int(found[1]) * _KIB if found else None
    limit = group.find_limit() if group else None
    if limit is not None and (total is None or limit <= total):
        return f"limit {_in_words(limit)}"
    return "no limit" if total is None else f"no limit; the machine has {_in_words(total)}"


def _in_words(number: int) -> str:
    unit, name = (GIB, "GiB") if number >= GIB else (MIB, "MiB")
    return f"{round(number / unit, 1):g} {name}"
