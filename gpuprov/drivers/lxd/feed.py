"""Commands that read: their three streams are websockets, which end with an empty text message."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import ExecResult
from gpuprov.drivers.lxd.execute import render_exec, wait_s

if TYPE_CHECKING:
    from websockets.sync.connection import Connection

    from gpuprov.drivers.base import Call
    from gpuprov.drivers.lxd.api import LxdApi

_END = ""
# LXD does not read where it only writes, so it answers no ping there.
_OPTIONS: Final[dict[str, Any]] = {"compression": None, "max_size": None, "max_queue": None, "ping_interval": None}


def run_fed(api: LxdApi, name: str, call: Call) -> ExecResult:
    """Run a command that reads `call.stdin`, and return its status and output.

    Raises:
        TimedOut: the command ran longer than it may.
        EngineError: a stream broke before its end.
    """
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import unix_connect

    start = time.monotonic()
    begun = api.begin("post", "instances", name, "exec", body={**render_exec(call), "wait-for-websocket": True})
    streams = begun["metadata"]["metadata"]["fds"]
    address = f"ws://{api.engine}/1.0/operations/{begun['metadata']['id']}/websocket?secret="
    try:
        with contextlib.ExitStack() as stack:
            stdin, stdout, stderr = (
                stack.enter_context(unix_connect(str(api.socket), address + streams[fd], **_OPTIONS))
                for fd in ("0", "1", "2")
            )
            _feed(stdin, call.stdin)
            output = [_read(stream).decode("utf-8", "replace") for stream in (stdout, stderr)]
    except (WebSocketException, OSError) as error:
        raise EngineError(
            f"the connection to {api.engine} was lost while a command was running in {name}",
            evidence=f"{type(error).__name__}: {error}",
            fix="check whether the daemon is running: gpuprov doctor; then run the same command again",
        ) from error
    exit_code = api.finished(begun, ("instances", name, "exec"), wait_s(call))["metadata"]["return"]
    result = ExecResult(exit_code=exit_code, stdout=output[0], stderr=output[1])
    return call.judged(result, node=name, elapsed_s=time.monotonic() - start)


def _feed(stream: Connection, content: bytes) -> None:
    from websockets.exceptions import ConnectionClosed

    with contextlib.suppress(ConnectionClosed):  # a command may end before it has read everything
        stream.send(content)
        stream.send(_END)


def _read(stream: Connection) -> bytes:
    """Everything until the end; the stream is read by a thread of its own meanwhile, so the other one cannot block."""
    parts: list[bytes] = []
    while isinstance(message := stream.recv(), bytes):
        parts.append(message)
    return b"".join(parts)
