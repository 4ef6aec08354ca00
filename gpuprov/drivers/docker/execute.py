"""Commands in a running container."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import ExecResult

if TYPE_CHECKING:
    from gpuprov.drivers.base import Call
    from gpuprov.drivers.docker.api import DockerApi

_NOT_FOUND = 127
_REFUSED = (126, 127)


def execute(api: DockerApi, container: str, call: Call) -> ExecResult:
    """Run a command in a container and return its status and output.

    Raises:
        TimedOut: the command ran longer than it may.
    """
    body = {
        "AttachStdin": bool(call.stdin),
        "AttachStdout": True,
        "AttachStderr": True,
        "Cmd": call.limited,
        "Env": [f"{key}={value}" for key, value in call.environment.items()],
        "WorkingDir": call.cwd or "/root",
    }
    started = time.monotonic()
    identity = api.post(f"/containers/{container}/exec", body)["Id"]
    with api.translated("run a command in", container):
        streams = _feed(api, identity, call.stdin) if call.stdin else api.client.exec_start(identity, demux=True)
    elapsed_s = time.monotonic() - started
    ended = api.get(f"/exec/{identity}/json")["ExitCode"]
    if ended is None:
        raise EngineError(
            f"the command in {container} was cut off",
            evidence="docker reports no exit status, as of a container that was removed meanwhile",
            fix="gpuprov list",
        )
    exit_code = int(ended)
    stdout, stderr = ((stream or b"").decode("utf-8", "replace") for stream in streams)
    if exit_code in _REFUSED and stdout.startswith("OCI runtime exec failed") and not stderr:
        missing = "no such file" in stdout or "not found" in stdout
        return ExecResult(exit_code=_NOT_FOUND if missing else exit_code, stdout="", stderr=stdout)
    result = ExecResult(exit_code=exit_code, stdout=stdout, stderr=stderr)
    return call.judged(result, node=container, elapsed_s=elapsed_s)


def _feed(api: DockerApi, identity: str, content: bytes) -> tuple[bytes | None, bytes | None]:
    """Start a command that reads; it is written to while it is read from, so that neither side waits for ever."""
    from docker.utils import socket as frames

    sdk: Any = frames  # some of it has no types
    stream: Any = api.client.exec_start(identity, socket=True)
    raw: socket.socket = stream._sock  # noqa: SLF001 - the SDK hands out the reader only

    def write() -> None:
        with contextlib.suppress(OSError):  # a command may end before it has read everything
            raw.sendall(content)
            raw.shutdown(socket.SHUT_WR)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        parts = (sdk.demux_adaptor(*frame) for frame in sdk.frames_iter(stream, tty=False))
        stdout, stderr = sdk.consume_socket_output(parts, demux=True)
    finally:
        with contextlib.suppress(OSError):
            raw.shutdown(socket.SHUT_RDWR)  # ends a write of what a command that is over has not read
        writer.join()
        stream.close()
        raw.close()
    return stdout, stderr
