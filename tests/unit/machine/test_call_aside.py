"""A call that may hang in the kernel: it answers from a process of its own, and is given up where it hangs."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady, TimedOut
from gpuprov.machine.call_aside import call_aside

if TYPE_CHECKING:
    from pathlib import Path


def test_what_it_returns_comes_from_another_process() -> None:
    told = call_aside(lambda: [os.getpid(), "a" * 200_000], limit_s=10.0)
    assert told[0] != os.getpid()
    assert told[1] == "a" * 200_000, "more than a pipe holds"


def test_one_that_hangs_is_killed_and_holds_nothing_open(tmp_path: Path) -> None:
    began_s = time.monotonic()
    note = tmp_path / "pid"
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def hang() -> str:
            note.write_text(f"{os.getpid()} {len(os.listdir('/proc/self/fd'))}")  # noqa: PTH208 - as it is counted
            time.sleep(60)
            return ""

        with pytest.raises(TimedOut, match=r"did not end within 0\.5 s"):
            call_aside(hang, limit_s=0.5)
    assert time.monotonic() - began_s < 10
    pid, handles = map(int, note.read_text().split())
    assert handles <= 5, "stdin, stdout, stderr, the way back, and what counts them"
    end_s = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}"):  # noqa: PTH110 - of a process
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_one_that_fails_or_is_killed_has_said_nothing() -> None:
    for act in (lambda: 1 // 0, lambda: os.kill(os.getpid(), signal.SIGKILL)):
        with pytest.raises(HostNotReady, match="has failed"):
            call_aside(act, limit_s=10.0)


def test_signals_are_as_they_were() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    call_aside(list, limit_s=10.0)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
