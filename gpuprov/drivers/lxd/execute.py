"""Commands in an instance: their streams are websockets, read within limits, and they are ended from outside the node.

LXD could record the output instead, but to a file of the host without any limit. pylxd's own `execute` leaves its
manager thread dying under threads.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError, GpuprovError, TimedOut
from gpuprov.drivers.calls import Intake

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from websockets.sync.connection import Connection

    from gpuprov.drivers.base import Stream
    from gpuprov.drivers.calls import Call, Output
    from gpuprov.drivers.lxd.api import Document, LxdApi

    Connect = Callable[[str], Connection]

_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LANG": "C.UTF-8",
}
_DAY_S = 86400.0
_GRACE_S = 5.0  # for a command to end by its own limit, or once it was killed
_END = ""
_PIECE_BYTES = 131072
_SIGKILL = 9


def execute(api: LxdApi, name: str, call: Call) -> Output:
    """Run a command in an instance and return its status and output.

    Raises:
        TimedOut: The command ran longer than it may.
        EngineError: It printed more than it may, or a stream broke before its end.
    """
    from websockets.exceptions import WebSocketException

    from gpuprov.drivers.lxd.streams import open_stream

    started_s = time.monotonic()
    end_s = started_s + (call.timeout_s or _DAY_S) + _GRACE_S
    intake = Intake(call.most_bytes)
    path = ("instances", name, "exec")
    begun = api.begin("post", *path, body=_render(call))
    streams: Mapping[str, str] = begun["metadata"]["metadata"]["fds"]
    address = f"ws://{api.engine}/1.0/operations/{begun['metadata']['id']}/websocket?secret="
    try:
        with ExitStack() as stack:

            def connect(stream: str) -> Connection:
                return stack.enter_context(open_stream(api.socket, address + streams[stream]))

            if not _pass_on(connect, call.stdin, intake, end_s):
                _kill(connect)
                with suppress(GpuprovError):
                    api.finished(begun, path, _GRACE_S)
                raise (call.too_much if intake.full else call.overdue)(intake.output(), node=name)
            exit_code = _wait(api, begun, path, end_s, connect)
    except (WebSocketException, OSError) as error:
        raise EngineError(
            f"the connection to {api.engine} was lost while a command was running in {name}",
            evidence=f"{type(error).__name__}: {error}",
            fix="check whether the daemon is running: gpuprov doctor; then run the same command again",
        ) from error
    if exit_code is None:
        raise call.overdue(intake.output(), node=name)
    return call.judged(intake.output(exit_code), node=name, elapsed_s=time.monotonic() - started_s)


def _render(call: Call) -> dict[str, Any]:
    return {
        "command": call.limited,
        "environment": {**_ENVIRONMENT, **call.environment},
        "interactive": False,
        "cwd": call.cwd or "/root",
        "wait-for-websocket": True,
    }


def _pass_on(connect: Connect, stdin: bytes, intake: Intake, end_s: float) -> bool:
    """Write what the command reads and take in what it writes; whether both streams ended within the limits.

    Each stream has a thread of its own, so that none has to wait for another.
    """
    ended: SimpleQueue[BaseException | None] = SimpleQueue()
    names: tuple[Stream, Stream] = ("stdout", "stderr")
    source, *outputs = (connect(number) for number in ("0", "1", "2"))
    threading.Thread(target=_feed, args=(source, stdin), daemon=True).start()
    for stream, output in zip(names, outputs, strict=True):
        threading.Thread(target=_read, args=(output, stream, intake, ended), daemon=True).start()
    for _ in outputs:
        try:
            fault = ended.get(timeout=max(0.0, end_s - time.monotonic()))
        except Empty:
            return False
        if fault is not None:
            raise fault
        if intake.full:
            return False
    return True


def _feed(stream: Connection, content: bytes) -> None:
    from websockets.exceptions import ConnectionClosed

    with suppress(ConnectionClosed, OSError):  # a command may end before it has read everything
        for start in range(0, len(content), _PIECE_BYTES):  # LXD holds each message in memory
            stream.send(content[start : start + _PIECE_BYTES])
        stream.send(_END)


def _read(connection: Connection, stream: Stream, intake: Intake, ended: SimpleQueue[BaseException | None]) -> None:
    """Take in everything until the end, which is an empty text, or as much as may be."""
    try:
        while isinstance(message := connection.recv(), bytes) and intake.take(stream, message):
            pass
    except Exception as error:  # noqa: BLE001 - raised again where the ends are collected
        ended.put(error)
    else:
        ended.put(None)


def _wait(api: LxdApi, begun: Document, path: tuple[str, ...], end_s: float, connect: Connect) -> int | None:
    """The exit status of a command whose streams have ended; None if it goes on nevertheless, and was killed."""
    try:
        done = api.finished(begun, path, max(1.0, end_s - time.monotonic()))
    except TimedOut:
        _kill(connect)
        return None
    return int(done["metadata"]["return"])


def _kill(connect: Connect) -> None:
    """Have LXD kill the command; what that left behind in the node is the node's own."""
    from websockets.exceptions import WebSocketException

    with suppress(WebSocketException, OSError):
        connect("control").send(json.dumps({"command": "signal", "signal": _SIGKILL}))
