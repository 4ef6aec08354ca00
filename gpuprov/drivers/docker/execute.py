"""Commands in a running container, read within limits and ended from outside the node."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError, GpuprovError, TimedOut
from gpuprov.core.excerpt import excerpt
from gpuprov.core.waiting import Wait
from gpuprov.drivers.calls import Deadline, Intake, Output
from gpuprov.drivers.docker.frames import read_frames

if TYPE_CHECKING:
    from gpuprov.drivers.calls import Call
    from gpuprov.drivers.docker.api import DockerApi

_NOT_FOUND = 127
_REFUSED = (126, 127)
_ATTACHED = {"Detach": False, "Tty": False}
_LOOK_S = 1.0  # how often it is looked at whether a command still moves
_PROCESSES = Path("/proc")


def execute(api: DockerApi, container: str, call: Call) -> Output:
    """Run a command in a container and return its status and output.

    Raises:
        TimedOut: The command ran longer than it may.
        EngineError: It printed more than it may.
    """
    body = {
        "AttachStdin": call.reads,
        "AttachStdout": True,
        "AttachStderr": True,
        "Cmd": call.limited,
        "Env": [f"{key}={value}" for key, value in call.environment.items()],
        "WorkingDir": call.cwd or "/root",
    }
    started_s = time.monotonic()
    deadline = Deadline(call)
    intake = Intake(call.most_bytes, take=deadline.watching(call.take))
    identity = api.post(f"/containers/{container}/exec", body)["Id"]
    try:
        with api.translated("run a command in", f"/containers/{container}"):
            ended = _pass_on(api, identity, call, intake, deadline)
    except BaseException:  # of who feeds or takes, and Ctrl-C too
        _kill(api, identity)
        raise
    exit_code = _exit_code(api, identity, deadline) if ended else None
    if exit_code is None:
        _kill(api, identity)
        raise (call.too_much if intake.full else call.overdue)(intake.output(), node=container)
    output = intake.output(exit_code)
    if exit_code in _REFUSED and output.stdout.startswith(b"OCI runtime exec failed") and not output.stderr:
        missing = b"no such file" in output.stdout or b"not found" in output.stdout
        return Output(exit_code=_NOT_FOUND if missing else exit_code, stdout=b"", stderr=output.stdout)
    return call.judged(output, node=container, elapsed_s=time.monotonic() - started_s)


def _pass_on(api: DockerApi, identity: str, call: Call, intake: Intake, deadline: Deadline) -> bool:
    """Start it, write what it reads and take in what it writes; whether its streams ended within the limits."""
    from urllib3.exceptions import HTTPError, ReadTimeoutError

    with ExitStack() as stack:
        answer = stack.enter_context(closing(api.open_stream(f"/exec/{identity}/start", _ATTACHED)))
        raw: socket.socket = answer.raw._fp.fp.raw._sock  # noqa: SLF001 - nobody hands out the socket, which is written to
        # The end of the answer must not close it: a write that nobody reads would be out of reach, and last for ever.
        stack.enter_context(raw.makefile("rb", buffering=0))
        helpers = _Helpers(raw, call, deadline)

        def read(count: int) -> bytes:
            raw.settimeout(None if call.silence_s else max(0.001, deadline.left_s))
            return bytes(answer.raw.read(count))

        try:
            helpers.start()
            taken = all(intake.take(stream, piece) for stream, piece in read_frames(read))
        except (TimeoutError, ReadTimeoutError):
            taken = False
        except HTTPError:
            if helpers.fault is None and not helpers.silent:  # nobody of ours has hung up
                raise
            taken = False
        finally:
            helpers.stop()
        if helpers.fault is not None:
            raise helpers.fault
        return taken and not helpers.silent


class _Helpers:
    """What goes on beside the reading: a thread that writes, and one that ends all where nothing moves any more."""

    def __init__(self, raw: socket.socket, call: Call, deadline: Deadline) -> None:
        self.fault: Exception | None = None
        self.silent = False
        self._raw, self._call, self._deadline = raw, call, deadline
        self._over = threading.Event()
        work = [self._feed] if call.reads else []
        work += [self._watch] if call.silence_s else []
        self._threads = [threading.Thread(target=target, daemon=True) for target in work]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends a write of what a command that is over has not read, too."""
        self._over.set()
        self._hang_up()
        for thread in self._threads:
            thread.join()

    def _feed(self) -> None:
        """Write while the other side is read from, so that neither waits for ever."""
        try:
            with suppress(OSError):  # a command may end before it has read everything
                for piece in self._call.pieces():
                    self._raw.sendall(piece)
                    self._deadline.moved()
                self._raw.shutdown(socket.SHUT_WR)
        except Exception as error:  # noqa: BLE001 - of who feeds it; raised again by the reader
            self.fault = error
            self._hang_up()

    def _watch(self) -> None:
        """A read that timed out could not be taken up again: urllib3 closes the answer."""
        while not self._over.wait(min(_LOOK_S, self._deadline.left_s)):
            if not self._deadline.left_s:
                self.silent = True
                self._hang_up()
                return

    def _hang_up(self) -> None:
        with suppress(OSError):
            self._raw.shutdown(socket.SHUT_RDWR)


def _exit_code(api: DockerApi, identity: str, deadline: Deadline) -> int | None:
    """Its exit status; None if it goes on though its streams have ended.

    Raises:
        EngineError: It has ended and has no status.
    """
    wait = Wait(what="a command to end", timeout_s=deadline.left_s, fix="", interval_s=0.02)
    try:
        ended: dict[str, Any] = wait.until(
            lambda: api.get(f"/exec/{identity}/json"),
            lambda seen: seen.get("ExitCode") is not None or not seen.get("Running"),
        )
    except TimedOut:
        return None
    if ended.get("ExitCode") is None:
        raise EngineError(
            "the command was cut off",
            evidence=f"docker reports no exit status; the container may have been removed: {excerpt(str(ended))}",
            fix="gpuprov list",
        )
    return int(ended["ExitCode"])


def _kill(api: DockerApi, identity: str) -> None:
    """Kill the command and what it started, from outside; Docker has no call for it, so only root can."""
    with suppress(GpuprovError):
        process: dict[str, Any] = api.get(f"/exec/{identity}/json")
        for pid in _session(int(process["Pid"])):
            with suppress(OSError):  # it ended meanwhile, or this user is not root
                if process["ContainerID"] in (_PROCESSES / str(pid) / "cgroup").read_text():
                    os.kill(pid, signal.SIGKILL)


def _session(leader: int) -> list[int]:
    """The processes of the session that a command leads; who left it is the node's own, and ends with it."""
    found = [leader] if leader > 1 else []
    for path in _PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            session = int(path.read_text(errors="replace").rpartition(")")[2].split()[3])
            if session == leader > 1:
                found.append(int(path.parent.name))
    return found
