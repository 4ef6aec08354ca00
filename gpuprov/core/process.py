"""Which process made something, written so that a later one can tell whether it still lives."""

from __future__ import annotations

import os
import time
from pathlib import Path

_PROC = Path("/proc")
_PARTS = 5
_START = 21  # of the fields of /proc/PID/stat, when it began; the name before it may hold anything


def describe_owner(pid: int, *, proc: Path = _PROC) -> str:
    """A process in words: machine, boot, pid namespace, pid and when it began.

    Raises:
        OSError: There is no such process.
    """
    return " ".join((os.uname().nodename or "?", boot_id(proc=proc), _namespace(proc), str(pid), _began(pid, proc)))


def boot_id(*, proc: Path = _PROC) -> str:
    """A word that changes when this machine is booted."""
    return (proc / "sys/kernel/random/boot_id").read_text().strip()


def is_gone(owner: str, *, proc: Path = _PROC) -> bool:
    """Whether the process that `describe_owner` described has certainly ended.

    A process of another machine, or of a namespace that one cannot see into, may live.
    """
    parts = owner.split(" ")
    if len(parts) != _PARTS or parts[0] != (os.uname().nodename or "?"):
        return False
    _, boot, namespace, pid, began = parts
    try:
        if boot != boot_id(proc=proc):
            return True
        return namespace == _namespace(proc) and not (pid.isdecimal() and _lives(int(pid), began, proc))
    except OSError:
        return False


def has_begun(pid: int, began: str, *, proc: Path = _PROC) -> bool:
    """Whether a process lives that began at this moment, in the kernel's ticks since boot."""
    try:
        return _lives(pid, began, proc)
    except OSError:
        return False


def begun_s(pid: int, *, proc: Path = _PROC) -> float:
    """When a process began, in seconds since 1970.

    Raises:
        OSError: There is no such process.
    """
    uptime_s = float((proc / "uptime").read_text().split()[0])
    return time.time() - uptime_s + int(_began(pid, proc)) / os.sysconf("SC_CLK_TCK")


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
