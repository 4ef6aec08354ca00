"""Processes that wait in NVIDIA's driver and do not come back: they cannot be killed, and everything else hangs too."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpuprov.core.excerpt import excerpt
from gpuprov.machine.process_stat import parse_stat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

WATCHED_S: Final = 30.0  # the driver starts a GPU in a second or two, and wakes who waits for it meanwhile
_STEP_S: Final = 0.5
_UNINTERRUPTIBLE: Final = "D"
_FRAME = re.compile(r"(\w+)\+0x\S+ \[nvidia\w*\]")
_FUNCTION = re.compile(r"(?:nvidia|nv|uvm|rm|os_acquire)_\w+|_nv\d+rm")
_NAME_MOST: Final = 40
_FUNCTION_MOST: Final = 60


@dataclass(frozen=True, kw_only=True)
class Stuck:
    """What was found.

    Attributes:
        waiting: Name, number and place in the driver of each process that has not run all the while.
        hidden: How many wait somewhere in the kernel that only root may see.
        watched_s: How long they were watched; 0 where nothing waited.
    """

    waiting: tuple[str, ...] = ()
    hidden: int = 0
    watched_s: float = 0.0


@dataclass(frozen=True)
class _Sleeper:
    """A thread in an uninterruptible sleep; the same one at two moments if it has not run in between.

    Attributes:
        pid: Of its process.
        started: When, in the kernel's ticks: numbers are used again.
        switches: The lines of /proc/PID/status that count how often it has run.
        place: The function of the driver in which it waits; None where that may not be seen.
    """

    pid: int
    started: str
    switches: str
    name: str = field(compare=False)
    place: str | None = field(compare=False)


def find_stuck(root: Path, *, watch_s: float = WATCHED_S, sleep: Callable[[float], object] = time.sleep) -> Stuck:
    """Look for processes that wait in the driver, and watch those until they run again, or the time has passed.

    Args:
        root: Where /proc is looked up.
        watch_s: How long a process must not have run to be stuck.
        sleep: Waits for so many seconds.
    """
    seen = _find_sleepers(root)
    watched_s = 0.0
    while seen and watched_s < watch_s:
        sleep(_STEP_S)
        watched_s += _STEP_S
        now = _find_sleepers(root)
        seen = {pid: sleeper for pid, sleeper in now.items() if seen.get(pid) == sleeper}
    waiting = {one.pid: one for one in reversed(list(seen.values())) if one.place}
    hidden = {one.pid for one in seen.values() if one.place is None} - set(waiting)
    return Stuck(
        waiting=tuple(f"{excerpt(one.name, _NAME_MOST)} ({one.pid}) in {one.place}" for one in waiting.values()),
        hidden=len(hidden),
        watched_s=watched_s,
    )


def _find_sleepers(root: Path) -> Mapping[int, _Sleeper]:
    """By the thread's number; those that wait for something else, such as a disk, are left out."""
    found = {}
    for pid, thread in _list_threads(root):
        with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            stat = parse_stat((thread / "stat").read_text(errors="replace"))
            place = _place(thread) if stat.state == _UNINTERRUPTIBLE else ""
            if place != "":
                found[int(thread.name)] = _Sleeper(pid, stat.started, _switches(thread), name=stat.name, place=place)
    return found


def _list_threads(root: Path) -> Iterator[tuple[int, Path]]:
    """The number of each process, and the folder of each of its threads.

    Often it is not the first thread that waits: of a killed process that one has ended, and is a zombie.
    """
    for path in root.glob("proc/[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            alone = parse_stat(path.read_text(errors="replace")).threads == 1
            for thread in (path.parent,) if alone else tuple(path.parent.glob("task/[0-9]*")):
                yield int(path.parent.name), thread


def _place(thread: Path) -> str | None:
    """The function of NVIDIA's modules in which a thread waits; empty for other places, None if it may not be seen."""
    stack, waits = _read(thread / "stack"), _read(thread / "wchan")
    if stack:
        return driver_function(stack)
    if waits and waits != "0":
        return waits[:_FUNCTION_MOST] if _FUNCTION.match(waits) else ""
    return None


def driver_function(stack: str) -> str:
    """The innermost function of NVIDIA's modules in /proc/PID/stack; empty if there is none."""
    found = _FRAME.search(stack)
    return found[1][:_FUNCTION_MOST] if found else ""


def _switches(thread: Path) -> str:
    return "".join(line for line in _read(thread / "status").splitlines() if "ctxt_switches" in line)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
