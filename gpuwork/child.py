"""A process and everything that it starts, ended together."""

from __future__ import annotations

import math
import os
import resource
import select
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from gpuwork.untrusted_files import open_anew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from threading import Event

ENDED_FIRST: Final = "900"  # services have what the engine gave the node; more than they have needs no permission
NICE: Final = 10  # who has to end what uses up the processor needs it too
_SCORE: Final = Path("/proc/self/oom_score_adj")
_GRACE_S: Final = 5.0
_FIRST_LOOK_S: Final = 0.01
_ENDED: Final = ("Z", "X")  # such a process only waits until its parent looks
_LONGEST_LOOK_S: Final = 0.25
STOP_LOOK_S: Final = 0.1  # so late at most it is seen that a command is to stop


def run_group(  # noqa: PLR0913  (what a process is, and when it ends)
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    stop: Event,
    limit_s: float = math.inf,
    handles: Sequence[int] = (),
    limits: Mapping[int, int] | None = None,
    look: Callable[[], object] | None = None,
) -> int | None:
    """Run a command in a process group of its own; what it prints is added to `log`.

    Whatever is left of the group when the command has ended is ended too.

    Args:
        cwd: Where it begins.
        env: All of its environment.
        log: The file for stdout and stderr.
        stop: When set, the group gets SIGTERM, and after five seconds SIGKILL.
        limit_s: After so long it is stopped as well.
        handles: Open files that it inherits.
        limits: Soft limits that it begins with, by the resource.
        look: Called meanwhile; when it returns what is true, the group is stopped.

    Returns:
        The exit status, 128 + N for signal N; None if it was stopped.
    """
    with open_log(log) as output, _ended_first(), _limited(limits or {}):
        process = subprocess.Popen(  # noqa: S603
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=handles,
        )
    stopped, until = False, time.monotonic() + limit_s
    _give_way(process.pid)
    handle = os.pidfd_open(process.pid)
    try:
        while not _has_ended(handle, STOP_LOOK_S):
            is_enough = look is not None and look()
            if is_enough or stop.is_set() or time.monotonic() >= until:
                stopped = not _has_ended(handle, 0)
                _signal_group(process.pid, signal.SIGTERM)
                _wait_until_gone(process.pid, _GRACE_S)
                break
    finally:
        os.close(handle)
        _signal_group(process.pid, signal.SIGKILL)
        _wait_until_gone(process.pid, _GRACE_S)  # a killed process may hold its GPU for a moment
        process.wait()
    if stopped:
        return None
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def open_log(log: Path) -> BinaryIO:
    """What is printed is added here; whatever a job put into its place is moved aside."""
    return cast("BinaryIO", os.fdopen(open_anew(log, os.O_WRONLY | os.O_APPEND), "ab", buffering=0))


def _give_way(pid: int) -> None:
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, NICE)


@contextmanager
def _ended_first() -> Iterator[None]:
    """Where memory runs out, the kernel ends what is started in the block before the services of the node."""
    before = _SCORE.read_text()
    try:
        with suppress(OSError):  # it has more already
            _SCORE.write_text(ENDED_FIRST)
        yield
    finally:
        with suppress(OSError):
            _SCORE.write_text(before)


@contextmanager
def _limited(limits: Mapping[int, int]) -> Iterator[None]:
    """What is started in the block has these soft limits, as far as the hard ones allow."""
    before = {kind: resource.getrlimit(kind) for kind in limits}
    try:
        for kind, soft in limits.items():
            with suppress(OSError, ValueError):
                resource.setrlimit(kind, (soft, before[kind][1]))
        yield
    finally:
        for kind, both in before.items():
            resource.setrlimit(kind, both)


def _has_ended(handle: int, limit_s: float) -> bool:
    """Whether a child ends in time; it is left to be waited for, so that nothing else can have its group's number."""
    return bool(select.select([handle], [], [], limit_s)[0])


def _wait_until_gone(group: int, limit_s: float) -> None:
    """Wait until no process of a group lives; one that hangs in the kernel is not waited for."""
    until = time.monotonic() + limit_s
    look_s = _FIRST_LOOK_S
    while _lives(group) and time.monotonic() < until:
        time.sleep(look_s)
        look_s = min(look_s * 1.5, _LONGEST_LOOK_S)  # a look goes through all processes of the node


def _lives(group: int) -> bool:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it ended meanwhile
            state, _, member_of = path.read_text().rpartition(")")[2].split()[:3]
            if int(member_of) == group and state not in _ENDED:
                return True
    return False


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, number)
