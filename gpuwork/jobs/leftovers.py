"""Processes that outlived who began them: a try whose program was killed, or that have a session of their own.

They are told by the marks in the environment that they began with. To read it is to wait while a process forks, which
what forks all the time does nearly always; so what a run of `submit` starts also has a tag, which the kernel tells at
once. Slurm's nodes also have the text of this file as the epilog of jobs, and `gpuprov verify` runs it in nodes, so it
imports the standard library only.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import NoReturn

VARIABLE: Final = "GPUWORK_RUN"
WORKER_VARIABLE: Final = "GPUWORK_WORKER"
SLURM_VARIABLE: Final = "SLURM_JOB_ID"
# Whatever Slurm starts on a node has this besides; the shell of salloc, which a person works in, has not.
SLURM_NODE_VARIABLE: Final = "SLURMD_NODENAME"
# A tag is the soft limit of file locks: Linux has none since 2.4, and hands the number on to whatever a process starts.
TAG: Final = 10  # RLIMIT_LOCKS
_TAG_BYTES: Final = 7
_MOST_TAG: Final = 1 << 62  # more than any tag is
_TAG_LINE: Final = "Max file locks"  # of /proc/PID/limits
_STOP_S: Final = 60.0
_LIMIT_S: Final = 8.0
_LOOK_S: Final = 0.02
_MOST_TOLD: Final = 200
_COMMAND_LENGTH: Final = 100
_MOST_ANSWER: Final = 1_000_000
_ACT_S: Final = 90.0  # what ends processes may take _STOP_S and _LIMIT_S


def tag_of(run: str) -> int:
    """The tag of what a run starts: the run is named as by `VARIABLE`."""
    return int.from_bytes(hashlib.sha256(run.encode()).digest()[:_TAG_BYTES], "big")


def keep_tag() -> None:
    """Let nothing that this process starts be without a tag again: only root can raise a hard limit."""
    resource.setrlimit(TAG, (_MOST_TAG, _MOST_TAG))


def is_of_run(pid: int) -> bool:
    """Whether a process descends from one that kept its tag; so does one of which that cannot be read."""
    with suppress(OSError, IndexError):
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
        return next(line for line in lines if line.startswith(_TAG_LINE)).split()[-2] != "unlimited"
    return True


def end_leftovers(marks: Mapping[str, str]) -> list[int]:
    """End every process on this node that has all these in its environment, and wait; returns what lives nevertheless.

    All are stopped before the first is killed: else the others would fork into the room that it leaves. A process with
    the tag of the run is ended too, whatever its environment.
    """
    wanted = _Wanted(marks)
    stopped = _stop_all(wanted, time.monotonic() + _STOP_S)
    until = time.monotonic() + _LIMIT_S
    while True:
        for pid in stopped:
            _signal(pid, wanted, signal.SIGKILL)
        left = find_marked(marks)
        if not left or time.monotonic() >= until:  # one that hangs in the kernel is not waited for
            return left
        time.sleep(_LOOK_S)
        stopped = _stop_all(wanted, until)


def find_marked(marks: Mapping[str, str]) -> list[int]:
    """The processes on this node that have all these in the environment that they began with, but for this one."""
    wanted = _Wanted(marks)
    return [pid for pid in _others() if wanted.has_tag(pid) or wanted.is_marked(pid)]


def find_tagged(run: str) -> list[int]:
    """The processes on this node that have the tag of a run, also those that ended and nobody waited for."""
    tag = tag_of(run)
    return [pid for pid in _others() if _tag(pid) == tag]


def find_values(variable: str) -> set[str]:
    """What a variable is in the environments of processes on this node, but for this one."""
    start = f"{variable}=".encode()
    found = (entry for _, environment in _environments() for entry in environment if entry.startswith(start))
    return {entry.decode(errors="replace").partition("=")[2] for entry in found}


class _Wanted:
    """What tells the processes that are to be ended."""

    def __init__(self, marks: Mapping[str, str]) -> None:
        self._entries = {f"{variable}={value}".encode() for variable, value in marks.items()}
        self._tag = tag_of(marks[VARIABLE]) if VARIABLE in marks else None

    def has_tag(self, pid: int) -> bool:
        return self._tag is not None and _tag(pid) == self._tag and not _has_ended(pid)

    def is_marked(self, pid: int) -> bool:
        with suppress(OSError):
            return self._entries <= set(_environment(pid))
        return False


def _stop_all(wanted: _Wanted, until: float) -> set[int]:
    stopped: set[int] = set()
    while (new := _stop_others(wanted, stopped)) and time.monotonic() < until:
        stopped |= new
    return stopped | new


def _stop_others(wanted: _Wanted, stopped: set[int]) -> set[int]:
    """Stop those that have not been stopped yet, each as soon as it is seen, and return them.

    No environment is read while there are any with a tag: what is stopped does not keep the reader waiting.
    """
    for is_wanted in (wanted.has_tag, wanted.is_marked):
        new = set()
        for pid in _others():
            if pid not in stopped and is_wanted(pid):
                _signal(pid, wanted, signal.SIGSTOP)
                new.add(pid)
        if new:
            return new
    return set()


def _signal(pid: int, wanted: _Wanted, number: signal.Signals) -> None:
    """Signal a process if that is allowed, and it has not given its number to another one by now."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if wanted.has_tag(pid) or wanted.is_marked(pid):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _others() -> list[int]:
    """The processes of this node, but for this one."""
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [pid for pid in pids if pid != os.getpid()]


def _tag(pid: int) -> int | None:
    with suppress(OSError):  # it ended, or is another account's
        return resource.prlimit(pid, TAG)[0]
    return None


def _has_ended(pid: int) -> bool:
    """Whether it only waits until its parent looks."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    return True


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    """Each other process that this one may look at, with the environment that it began with."""
    for pid in _others():
        with suppress(OSError):  # it ended, or is another account's
            yield pid, _environment(pid)


def _environment(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def _end_slurm_job(environment: Mapping[str, str]) -> list[dict[str, object]]:
    """As an epilog: end what is left on this node of the job that slurmd names."""
    node = environment.get(SLURM_NODE_VARIABLE) or platform.node().partition(".")[0]
    end_leftovers({SLURM_VARIABLE: environment[SLURM_VARIABLE], SLURM_NODE_VARIABLE: node})
    return []


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


def _as_each(act: Callable[[], list[dict[str, object]]]) -> list[dict[str, object]]:
    """What it returns, done by this account, and as each other one into whose processes this one may not look.

    So is root in a node of Docker, without CAP_SYS_PTRACE.

    Raises:
        OSError: It cannot be done as one of them.
    """
    told = act()
    for uid, gid in sorted(_closed_accounts()):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            _act_as(uid, gid, act, writer)
        os.close(writer)
        said = _read_all(reader)
        os.close(reader)
        if said is None:
            os.kill(child, signal.SIGKILL)
        if os.waitpid(child, 0)[1] or said is None:
            raise OSError(f"what uid {uid} runs cannot be looked at")
        told += json.loads(said)
    return told[:_MOST_TOLD]


def _read_all(reader: int) -> bytes | None:
    """What comes until the end, which that account may keep open; None where that is too late or too much."""
    said, until = b"", time.monotonic() + _ACT_S
    while len(said) <= _MOST_ANSWER and select.select([reader], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(reader, _MOST_ANSWER)
        if not piece:
            return said
        said += piece
    return None


def _closed_accounts() -> set[tuple[int, int]]:
    """By one process of each: to read what one began with may mean to wait."""
    seen, closed = {os.geteuid()}, set()
    for pid in _others():
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended
            owner = os.stat(f"/proc/{pid}")  # noqa: PTH116
            if owner.st_uid in seen:
                continue
            try:
                _environment(pid)
            except PermissionError:
                closed.add((owner.st_uid, owner.st_gid))
            seen.add(owner.st_uid)
    return closed


def _act_as(uid: int, gid: int, act: Callable[[], list[dict[str, object]]], writer: int) -> NoReturn:
    status = 1
    try:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        with open(writer, "wb") as answer:
            answer.write(json.dumps(act()).encode())
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.stdout.write(json.dumps(_as_each(lambda: _list_marked(sys.argv[1]))) + "\n")
    else:
        with suppress(KeyError, OSError, ValueError):  # slurmd takes a node away whose epilog fails
            _as_each(lambda: _end_slurm_job(os.environ))
