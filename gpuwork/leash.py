"""A process on a leash, which does not outlive whoever started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG: Final = 1


def die_with(parent: int) -> None:
    """Have the kernel kill this process when the thread ends that started it; end now if that has."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def on_leash_end(act: Callable[[], object]) -> None:
    """Do this once, in a thread, when stdin has ended: a pipe whose other end whoever started this holds."""
    threading.Thread(target=_wait, args=(sys.stdin.fileno(), act), daemon=True).start()


def _wait(handle: int, act: Callable[[], object]) -> None:
    while os.read(handle, 1):  # not by sys.stdin, whose lock would keep the interpreter from ending
        pass
    act()
