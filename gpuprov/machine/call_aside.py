"""A call that may hang in the kernel, as what is on a file server that is away does: it has a process of its own."""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

from gpuprov.core.errors import HostNotReady, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable

Told = TypeVar("Told")

_PIECE: Final = 65536
_TOLD_TO_END: Final = (signal.SIGINT, signal.SIGTERM)


def call_aside(act: Callable[[], Told], *, limit_s: float) -> Told:
    """Call it in a fork of this process; returns what it returns, as JSON carries it.

    Args:
        act: May use nothing that other threads of this process use as well.
        limit_s: After this long it is killed. Nothing ends what waits in the kernel: that is left behind, and holds
            nothing of this process open.

    Raises:
        TimedOut: It was killed.
        HostNotReady: It ended without an answer.
    """
    ours, theirs = os.pipe()
    # The fork is this process's to end, and must never run what this process would do after an interrupt
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _TOLD_TO_END)
    try:
        pid = _fork()
        if not pid:
            _answer(act, theirs)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    ended = False
    try:
        os.close(theirs)
        text = _read_all(ours, limit_s)
        ended = True
    finally:
        os.close(ours)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if ended:
            os.waitpid(pid, 0)
        else:
            threading.Thread(target=os.waitpid, args=(pid, 0), daemon=True).start()
    if not text:
        raise HostNotReady("a look at folders has failed", evidence=f"process {pid} said nothing", fix="gpuprov doctor")
    return cast("Told", json.loads(text))


def _fork() -> int:
    with warnings.catch_warnings():  # other threads of this process beat, and have no lock that the fork would take
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _answer(act: Callable[[], object], write_fd: int) -> None:
    """In the fork: say what it returns, and end."""
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        # A lock or a connection would be held for as long as this hangs
        for handle in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
            if handle not in (0, 1, 2, write_fd):
                with suppress(OSError):
                    os.close(handle)
        left = memoryview(json.dumps(act()).encode())
        while left:
            left = left[os.write(write_fd, left) :]
    finally:
        os._exit(0)


def _read_all(read_fd: int, limit_s: float) -> bytes:
    """All that is said there until its end."""
    end_s = time.monotonic() + limit_s
    poll = select.poll()
    poll.register(read_fd, select.POLLIN)
    said = b""
    while True:
        left_s = end_s - time.monotonic()
        if left_s <= 0 or not poll.poll(left_s * 1000):
            raise TimedOut(
                f"a look at folders did not end within {limit_s:g} s",
                evidence="a file server may be away",
                fix="look which file system hangs: findmnt",
            )
        piece = os.read(read_fd, _PIECE)
        if not piece:
            return said
        said += piece
