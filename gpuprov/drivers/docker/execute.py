"""Commands in a running container, read within limits and ended from outside the node."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError, GpuprovError, TimedOut
from gpuprov.core.waiting import Wait
from gpuprov.drivers.calls import Intake, Output
from gpuprov.drivers.docker.frames import read_frames

if TYPE_CHECKING:
    from gpuprov.drivers.calls import Call
    from gpuprov.drivers.docker.api import DockerApi

_NOT_FOUND = 127
_REFUSED = (126, 127)
_DAY_S = 86400.0
_GRACE_S = 5.0  # for a command to end by its own limit
_PROCESSES = Path("/proc")


def execute(api: DockerApi, container: str, call: Call) -> Output:
    """Run a command in a container and return its status and output.

    Raises:
        TimedOut: The command ran longer than it may.
        EngineError: It printed more than it may.
    """
    body = {
        "AttachStdin": bool(call.stdin),
        "AttachStdout": True,
        "AttachStderr": True,
        "Cmd": call.limited,
        "Env": [f"{key}={value}" for key, value in call.environment.items()],
        "WorkingDir": call.cwd or "/root",
    }
    started_s = time.monotonic()
    end_s = started_s + (call.timeout_s or _DAY_S) + _GRACE_S
    intake = Intake(call.most_bytes)
    identity = api.post(f"/containers/{container}/exec", body)["Id"]
    ended = _pass_on(api, identity, call.stdin, intake, end_s)
    exit_code = _exit_code(api, identity, end_s) if ended else None
    if exit_code is None:
        _kill(api, identity)
        raise (call.too_much if intake.full else call.overdue)(intake.output(), node=container)
    output = intake.output(exit_code)
    if exit_code in _REFUSED and output.stdout.startswith(b"OCI runtime exec failed") and not output.stderr:
        missing = b"no such file" in output.stdout or b"not found" in output.stdout
        return Output(exit_code=_NOT_FOUND if missing else exit_code, stdout=b"", stderr=output.stdout)
    return call.judged(output, node=container, elapsed_s=time.monotonic() - started_s)


def _pass_on(api: DockerApi, identity: str, content: bytes, intake: Intake, end_s: float) -> bool:
    """Start it, write what it reads and take in what it writes; whether its streams ended within the limits."""
    from urllib3.exceptions import HTTPError

    with closing(api.open_stream(f"/exec/{identity}/start", {"Detach": False, "Tty": False})) as answer:
        raw: socket.socket = answer.raw._fp.fp.raw._sock  # noqa: SLF001 - nobody hands out the socket, which is written to

        def read(count: int) -> bytes:
            raw.settimeout(max(0.001, end_s - time.monotonic()))
            return bytes(answer.raw.read(count))

        writer = threading.Thread(target=_feed, args=(raw, content), daemon=True)
        if content:
            writer.start()
        try:
            return all(intake.take(stream, piece) for stream, piece in read_frames(read))
        except (TimeoutError, HTTPError):
            return False
        finally:
            with suppress(OSError):
                raw.shutdown(socket.SHUT_RDWR)  # ends a write of what a command that is over has not read
            if content:
                writer.join()


def _feed(raw: socket.socket, content: bytes) -> None:
    """Write while the other side is read from, so that neither waits for ever."""
    with suppress(OSError):  # a command may end before it has read everything
        raw.sendall(content)
        raw.shutdown(socket.SHUT_WR)


def _exit_code(api: DockerApi, identity: str, end_s: float) -> int | None:
    """Its exit status; None if it goes on though its streams have ended.

    Raises:
        EngineError: It has ended and has no status.
    """
    wait = Wait(what="a command to end", timeout_s=max(0.0, end_s - time.monotonic()), fix="", interval_s=0.02)
    try:
        ended: dict[str, Any] = wait.until(
            lambda: api.get(f"/exec/{identity}/json"), lambda seen: seen["ExitCode"] is not None or not seen["Running"]
        )
    except TimedOut:
        return None
    if ended["ExitCode"] is None:
        raise EngineError(
            "the command was cut off",
            evidence="docker reports no exit status, as of a container that was removed meanwhile",
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
