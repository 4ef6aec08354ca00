"""Processes that outlived who began them: a try whose program was killed, or that have a session of their own."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

VARIABLE: Final = "GPUWORK_RUN"
WORKER_VARIABLE: Final = "GPUWORK_WORKER"
_LIMIT_S: Final = 5.0
_LOOK_S: Final = 0.02


def end_leftovers(variable: str, value: str) -> None:
    """Kill every process on this node that has this in its environment, and wait until they are gone."""
    until = time.monotonic() + _LIMIT_S
    while (
        left := find_marked(variable, value)
    ) and time.monotonic() < until:  # one that hangs in the kernel is not waited for
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_S)


def find_marked(variable: str, value: str) -> list[int]:
    """The processes on this node that have this in the environment that they began with, but for this one."""
    mark = f"{variable}={value}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it ended, or is another account's
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return [pid for pid in found if pid != os.getpid()]
