"""A process on a leash: its stdin is a pipe that ends when whoever started it lets go, or is killed."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def on_leash_end(act: Callable[[], object]) -> None:
    """Do this once, in a thread, when stdin has ended."""
    threading.Thread(target=_wait, args=(sys.stdin.fileno(), act), daemon=True).start()


def _wait(handle: int, act: Callable[[], object]) -> None:
    while os.read(handle, 1):  # not by sys.stdin, whose lock would keep the interpreter from ending
        pass
    act()
