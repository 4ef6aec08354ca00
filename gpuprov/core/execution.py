"""Commands of the host: the only place that starts a process."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from gpuprov.core.activity import find_activity
from gpuprov.core.errors import HostNotReady, TimedOut
from gpuprov.core.excerpt import end_and_causes
from gpuprov.core.follower import HEAR_S, Ear
from gpuprov.core.limits import Limits, Watch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from gpuprov.core.follower import Follower

EVIDENCE_LINES = 15
GRACE_S = 5.0
_STDERR = 2
KILLED_S = 2.0  # for a killed command to be gone


class CommandMissing(HostNotReady):
    """The program is not installed."""


class CommandFailed(HostNotReady):
    """The program ended with an exit status other than 0."""


class CommandStopped(HostNotReady):
    """It was ended before its time, for another part of the same work failed."""


@dataclass(frozen=True, kw_only=True)
class Completed:
    """A finished command; streams are decoded as UTF-8 with replacement."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    seconds: float


def run(
    argv: Sequence[str],
    *,
    timeout_s: float | Limits,
    environment: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    stdin: str = "",
    check: bool = True,
) -> Completed:
    """Run a command, wait for it and return what it said.

    Args:
        argv: Program and arguments; no shell is involved.
        timeout_s: After this many seconds, or by these limits, the command and its children are ended, and GRACE_S
            later killed; one that hangs in the kernel, which nothing ends, is left behind.
        environment: Variables to add to this process's own.
        cwd: Folder to run in.
        stdin: Text for its standard input.
        check: Raise when the exit status is not 0.

    Raises:
        CommandMissing: The program does not exist or may not be executed.
        CommandFailed: The exit status is not 0, and `check` is set.
        TimedOut: It ran longer than `timeout_s`.
    """
    started = time.monotonic()
    process = _start(argv, environment, cwd)
    limits = timeout_s if isinstance(timeout_s, Limits) else Limits(total_s=timeout_s)
    streams = _communicate(process, argv, stdin, _Attention(limits))
    return _completed(process, argv, streams, started=started, check=check)


def run_followed(
    argv: Sequence[str],
    *,
    limits: Limits,
    follower: Follower,
    starter: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Completed:
    """Run a command as `run` does, heard while it runs, and ended as soon as its follower says so.

    Args:
        argv: Program and arguments.
        limits: How long it may take.
        follower: Hears it.
        starter: The beginning of an argv that starts it in its place; no error names it.
        environment: Variables to add to this process's own.

    Raises:
        CommandMissing: The program does not exist or may not be executed.
        CommandFailed: The exit status is not 0.
        CommandStopped: The follower had it ended.
        TimedOut: It is over one of the limits.
    """
    started = time.monotonic()
    process = _start([*starter, *argv], environment, None)
    streams = _communicate(process, argv, "", _Attention(limits, follower))
    return _completed(process, argv, streams, started=started, check=True)


def _start(argv: Sequence[str], environment: Mapping[str, str] | None, cwd: Path | str | None) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(  # noqa: S603 - argv is a list, never a shell line
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})},
            cwd=cwd,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # so that a timeout reaches its children, which may hold the pipes open
        )
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        raise CommandMissing(
            f"cannot run {argv[0]}",
            evidence=f"{shlex.join(argv)}: {error}",
            fix="gpuprov doctor  # names the missing package",
        ) from error


def _completed(
    process: subprocess.Popen[str], argv: Sequence[str], streams: tuple[str, str], *, started: float, check: bool
) -> Completed:
    completed = Completed(
        argv=tuple(argv),
        exit_code=process.returncode,
        stdout=streams[0],
        stderr=streams[1],
        seconds=time.monotonic() - started,
    )
    if check and completed.exit_code != 0:
        raise _failure(completed)
    return completed


def run_attached(argv: Sequence[str], *, stdout_to_stderr: bool = False) -> int:
    """Run a command on this process's own terminal and return its exit status; Ctrl-C is the command's alone.

    Args:
        argv: Program and arguments.
        stdout_to_stderr: Whether stdout is kept for something else.

    Raises:
        CommandMissing: The program does not exist or may not be executed.
    """
    # A handler, not SIG_IGN: the child would inherit that, and a handler goes back to the default in it.
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        stdout = _STDERR if stdout_to_stderr else None
        return subprocess.call(list(argv), stdout=stdout)  # noqa: S603 - argv is a list, never a shell line
    except (FileNotFoundError, PermissionError) as error:
        raise CommandMissing(f"cannot run {argv[0]}", evidence=str(error), fix="gpuprov doctor") from error
    finally:
        signal.signal(signal.SIGINT, previous)


@dataclass(frozen=True, kw_only=True)
class Piped:
    """A command that runs, and the caller's ends of its streams."""

    process: subprocess.Popen[bytes]
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes] | None = None

    def kill(self) -> None:
        """Kill it and its children."""
        _signal_group(self.process, signal.SIGKILL)


@contextlib.contextmanager
def piped(argv: Sequence[str], *, with_stderr: bool = False) -> Iterator[Piped]:
    """A command whose stdin and stdout are the caller's while the block runs.

    Args:
        argv: Program and arguments.
        with_stderr: Whether its stderr is the caller's too; else what it says there is lost.

    Raises:
        CommandMissing: The program does not exist or may not be executed.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - argv is a list, never a shell line
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if with_stderr else subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is this process's
        )
    except (FileNotFoundError, PermissionError) as error:
        raise CommandMissing(f"cannot run {argv[0]}", evidence=str(error), fix="gpuprov doctor") from error
    if process.stdin is None or process.stdout is None:
        raise AssertionError  # pragma: no cover - they were asked for
    running = Piped(process=process, stdin=process.stdin, stdout=process.stdout, stderr=process.stderr)
    try:
        yield running
    finally:
        running.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILLED_S)
        for stream in filter(None, (running.stdin, running.stdout, running.stderr)):
            with contextlib.suppress(OSError):  # what was not yet written
                stream.close()


class _Attention:
    """Looks at a command now and then: whether it is over a limit, and what its follower wants."""

    def __init__(self, limits: Limits, follower: Follower | None = None) -> None:
        self._watch = Watch(limits, now_s=time.monotonic())
        self._follower = follower
        self._ear = Ear()
        self._next_look_s = 0.0

    @property
    def pause_s(self) -> float | None:
        """For how long to let it work unseen; None for as long as it takes."""
        look_s = self._watch.look_s
        if self._follower is None:
            return look_s
        return HEAR_S if look_s is None else min(HEAR_S, look_s)

    def hear_the_rest(self, stdout: str, stderr: str) -> None:
        """Let the follower hear what it has not heard yet of a command that has ended."""
        if self._follower is not None:
            self._follower.hear(self._ear.last_lines(stdout, stderr))

    def judge(self, pid: int, stdout: bytes | None, stderr: bytes | None) -> str:
        """Which limit it is over, in words; empty where it may go on."""
        if self._follower is not None:
            self._follower.hear(self._ear.new_lines(stdout, stderr))
            if self._follower.stop.is_set():
                raise CommandStopped(
                    "the command was ended", evidence="another part of the same work failed", fix="try again"
                )
        now_s, look_s = time.monotonic(), self._watch.look_s
        if look_s is None or now_s < self._next_look_s:
            return ""
        self._next_look_s = now_s + (look_s if self._follower is not None else 0)
        written = len(stdout or b"") + len(stderr or b"")
        return self._watch.judge(now_s=now_s, written=written, activity=find_activity(pid))


def _communicate(
    process: subprocess.Popen[str], argv: Sequence[str], stdin: str, attention: _Attention
) -> tuple[str, str]:
    try:
        said = _listen(process, stdin, attention)
        while said == "":
            said = _listen(process, None, attention)  # what goes to it is on its way
    except BaseException:
        _end_group(process)
        raise
    if isinstance(said, tuple):
        attention.hear_the_rest(*said)
        return said
    stdout, stderr = _end_group(process)
    raise TimedOut(
        f"{argv[0]} {said}",
        evidence=f"{shlex.join(argv)}\n{end_and_causes(stderr or stdout, EVIDENCE_LINES)}".rstrip(),
        fix=f"run it manually to see what it waits for: {shlex.join(argv)}",
    )


def _listen(process: subprocess.Popen[str], stdin: str | None, attention: _Attention) -> tuple[str, str] | str:
    """All that it said, once it has ended; until then the limit that it is over, in words."""
    try:
        return process.communicate(stdin, timeout=attention.pause_s)
    except subprocess.TimeoutExpired as expired:
        return attention.judge(process.pid, expired.output, expired.stderr)


def _end_group(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End it and its children, by force only after GRACE_S: mmdebstrap has hundreds of MB to remove."""
    try:
        _signal_group(process, signal.SIGTERM)
        return process.communicate(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        _signal_group(process, signal.SIGKILL)
        return _collect(process)
    except BaseException:
        _signal_group(process, signal.SIGKILL)
        _collect(process)
        raise


def _collect(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a killed command said; one that is stuck in a driver ends when the driver does, and is not waited for."""
    try:
        return process.communicate(timeout=KILLED_S)
    except subprocess.TimeoutExpired:
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        if process.poll() is not None:  # only something that it started, and that left its group, holds the streams
            return "", ""
        threading.Thread(target=process.wait, daemon=True).start()
        return "", f"process {process.pid} cannot be killed: it waits in the kernel"


def _signal_group(process: subprocess.Popen[Any], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _failure(completed: Completed) -> CommandFailed:
    line = shlex.join(completed.argv)
    return CommandFailed(
        f"{completed.argv[0]} failed with exit status {completed.exit_code}",
        evidence=f"{line}\n{end_and_causes(completed.stderr or completed.stdout, EVIDENCE_LINES)}".rstrip(),
        fix=f"run it manually: {line}",
    )
