"""Processes that outlived who began them: a try whose program was killed, or that have a session of their own.

They are told by the marks in the environment that they began with. Slurm's nodes also have the text of this file as
the epilog of jobs, and `gpuprov verify` runs it in nodes, so it imports the standard library only.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VARIABLE: Final = "GPUWORK_RUN"
WORKER_VARIABLE: Final = "GPUWORK_WORKER"
SLURM_VARIABLE: Final = "SLURM_JOB_ID"
# Whatever Slurm starts on a node has this besides; the shell of salloc, which a person works in, has not.
SLURM_NODE_VARIABLE: Final = "SLURMD_NODENAME"
_LIMIT_S: Final = 8.0
_LOOK_S: Final = 0.02
_MOST_TOLD: Final = 200
_COMMAND_LENGTH: Final = 100


def end_leftovers(marks: Mapping[str, str]) -> list[int]:
    """End every process on this node that has all these in its environment, and wait; returns what lives nevertheless.

    All are stopped before the first is killed: else the others would fork into the room that it leaves.
    """
    wanted = _entries(marks)
    until = time.monotonic() + _LIMIT_S
    while True:
        stopped: set[int] = set()
        while (new := _stop_others(wanted, stopped)) and time.monotonic() < until:
            stopped |= new
        for pid in {*stopped, *new}:
            _signal(pid, wanted, signal.SIGKILL)
        left = find_marked(marks)
        if not left or time.monotonic() >= until:  # one that hangs in the kernel is not waited for
            return left
        time.sleep(_LOOK_S)


def find_marked(marks: Mapping[str, str]) -> list[int]:
    """The processes on this node that have all these in the environment that they began with, but for this one."""
    wanted = _entries(marks)
    return [pid for pid, environment in _environments() if wanted <= set(environment)]


def find_values(variable: str) -> set[str]:
    """What a variable is in the environments of processes on this node, but for this one."""
    start = f"{variable}=".encode()
    found = (entry for _, environment in _environments() for entry in environment if entry.startswith(start))
    return {entry.decode(errors="replace").partition("=")[2] for entry in found}


def _entries(marks: Mapping[str, str]) -> set[bytes]:
    return {f"{variable}={value}".encode() for variable, value in marks.items()}


def _stop_others(wanted: set[bytes], stopped: set[int]) -> set[int]:
    """Stop those that have not been stopped yet, each as soon as it is seen, and return them."""
    new = set()
    for pid, environment in _environments():
        if pid not in stopped and wanted <= set(environment):
            _signal(pid, wanted, signal.SIGSTOP)
            new.add(pid)
    return new


def _signal(pid: int, wanted: set[bytes], number: signal.Signals) -> None:
    """Signal a process if that is allowed, and it has not given its number to another one by now."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if wanted <= set(_environment(pid)):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    """Each other process that this one may look at, with the environment that it began with."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it ended, or is another account's
            pid = int(path.parent.name)
            if pid != os.getpid():
                yield pid, _environment(pid)


def _environment(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def _end_slurm_job(environment: Mapping[str, str]) -> None:
    """As an epilog: end what is left on this node of the job that slurmd names."""
    node = environment.get(SLURM_NODE_VARIABLE) or platform.node().partition(".")[0]
    end_leftovers({SLURM_VARIABLE: environment[SLURM_VARIABLE], SLURM_NODE_VARIABLE: node})


def _list_marked(variable: str) -> list[dict[str, object]]:
    """Processes of jobs on this node: what says whose each is, and whether somebody works on that run of `submit`."""
    told: list[dict[str, object]] = []
    for pid, environment in _environments():
        pairs = (entry.decode(errors="replace").partition("=") for entry in environment)
        names = {name: value for name, _, value in pairs}
        if variable not in names or (variable == SLURM_VARIABLE and SLURM_NODE_VARIABLE not in names):
            continue
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            owned = variable == VARIABLE and _is_locked(Path(names[variable]) / ".lock")
            told.append({"pid": pid, "of": names[variable], "owned": owned, "command": words[:_COMMAND_LENGTH]})
    return told[:_MOST_TOLD]


def _is_locked(lock: Path) -> bool:
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.stdout.write(json.dumps(_list_marked(sys.argv[1])) + "\n")
    else:
        with suppress(KeyError, OSError):  # slurmd takes a node away whose epilog fails
            _end_slurm_job(os.environ)
