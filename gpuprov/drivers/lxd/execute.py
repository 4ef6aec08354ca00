"""Commands in an instance: their streams are websockets, read within limits, and they are ended from outside the node.

LXD could record the output instead, but to a file of the host without any limit. pylxd's own `execute` leaves its
manager thread dying under threads.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError, GpuprovError, TimedOut
from gpuprov.core.waiting import Wait
from gpuprov.drivers.calls import Deadline, Intake
from gpuprov.drivers.lxd.start_log import NOT_RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from websockets.sync.connection import Connection

    from gpuprov.drivers.base import Stream
    from gpuprov.drivers.calls import Call, Output
    from gpuprov.drivers.lxd.api import Document, LxdApi

    Ended = SimpleQueue[BaseException | None]  # an end of each stream, with what broke it

_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LANG": "C.UTF-8",
}
_GRACE_S = 5.0  # for a command to end once it was killed
_DEATH_S = 2.0  # for an engine to see that an instance whose streams broke has died
_END = ""  # the last message of a stream


def execute(api: LxdApi, name: str, call: Call) -> Output:
    """Run a command in an instance and return its status and output.

    Raises:
        TimedOut: The command ran longer than it may.
        EngineError: It printed more than it may, or a stream broke before its end.
    """
    from websockets.exceptions import WebSocketException

    started_s = time.monotonic()
    deadline = Deadline(call)
    intake = Intake(call.most_bytes, take=deadline.watching(call.take))
    path = ("instances", name, "exec")
    begun = api.begin("post", *path, body=render_call(call))
    try:
        with ExitStack() as stack:
            made = open_streams(api, begun, stack, ("0", "1", "2"))
            try:
                passed = _pass_on(made, call, intake, deadline)
            except BaseException:  # of who feeds or takes, and Ctrl-C too
                end_streams(made)
                raise
            if not passed:
                end_streams(made)
                with suppress(GpuprovError):
                    api.finished(begun, path, _GRACE_S)
                raise (call.too_much if intake.full else call.overdue)(intake.output(), node=name)
            exit_code = _wait(api, begun, path, deadline, made)
    except (WebSocketException, OSError) as error:
        raise explain_loss(api, name, error) from error
    if exit_code is None:
        raise call.overdue(intake.output(), node=name)
    return call.judged(intake.output(exit_code), node=name, elapsed_s=time.monotonic() - started_s)


def open_streams(api: LxdApi, begun: Document, stack: ExitStack, names: Iterable[str]) -> list[Connection]:
    """Connect to the streams of a command that `begin` began; the stack closes them."""
    from gpuprov.drivers.lxd.streams import open_stream

    secrets: Mapping[str, str] = begun["metadata"]["metadata"]["fds"]
    address = f"ws://{api.engine}/1.0/operations/{begun['metadata']['id']}/websocket?secret="
    return [stack.enter_context(open_stream(api.socket, address + secrets[name])) for name in names]


def explain_loss(api: LxdApi, name: str, error: Exception) -> EngineError:
    """The error for a stream that broke: the instance may have died, or the daemon."""
    dying = Wait(what=f"{name} to be dead", timeout_s=_DEATH_S, fix=f"gpuprov show {name}")
    with suppress(GpuprovError):
        dying.until(lambda: api.get("instances", name)["status"], lambda status: status != "Running")
        return EngineError(
            f"{api.engine} could not run a command in {name}", evidence=NOT_RUNNING, fix=f"gpuprov start {name}"
        )
    return EngineError(
        f"the connection to {api.engine} was lost while a command was running in {name}",
        evidence=f"{type(error).__name__}: {error}",
        fix="check whether the daemon is running: gpuprov doctor; then run the same command again",
    )


def render_call(call: Call) -> dict[str, Any]:
    """The request that begins a command."""
    return {
        "command": call.limited,
        "environment": {**_ENVIRONMENT, **call.environment},
        "interactive": False,
        "cwd": call.cwd or "/root",
        "wait-for-websocket": True,
    }


def _pass_on(streams: Iterable[Connection], call: Call, intake: Intake, deadline: Deadline) -> bool:
    """Write what the command reads and take in what it writes; whether both streams ended within the limits.

    Each stream has a thread of its own, so that none has to wait for another.
    """
    ended: Ended = SimpleQueue()
    names: tuple[Stream, Stream] = ("stdout", "stderr")
    source, *outputs = streams
    threading.Thread(target=feed, args=(source, _moving(call, deadline), ended), daemon=True).start()
    for stream, output in zip(names, outputs, strict=True):
        threading.Thread(target=take_in, args=(output, partial(intake.take, stream), ended), daemon=True).start()
    going_on = len(outputs)
    while going_on:
        try:
            fault = ended.get(timeout=deadline.left_s)
        except Empty:
            if deadline.left_s:  # something moved meanwhile
                continue
            return False
        if fault is not None:
            raise fault
        if intake.full:
            return False
        going_on -= 1
    return True


def feed(stream: Connection, pieces: Iterable[bytes], ended: Ended) -> None:
    """Write what a command reads, and its end; who makes the pieces may fail."""
    from websockets.exceptions import ConnectionClosed

    try:
        with suppress(ConnectionClosed, OSError):  # a command may end before it has read everything
            for piece in pieces:
                stream.send(piece)
            stream.send(_END)
    except Exception as error:  # noqa: BLE001 - of who feeds it; raised again where the ends are collected
        ended.put(error)


def take_in(stream: Connection, take: Callable[[bytes], bool], ended: Ended) -> None:
    """Hand on everything until the end, which is an empty text, or until no more may be taken."""
    try:
        while isinstance(piece := stream.recv(), bytes) and take(piece):
            pass
    except Exception as error:  # noqa: BLE001 - raised again where the ends are collected
        ended.put(error)
    else:
        ended.put(None)


def _moving(call: Call, deadline: Deadline) -> Iterator[bytes]:
    """What the command reads; the next piece is asked for when one was written."""
    for piece in call.pieces():
        yield piece
        deadline.moved()


def _wait(
    api: LxdApi, begun: Document, path: tuple[str, ...], deadline: Deadline, streams: Iterable[Connection]
) -> int | None:
    """The exit status of a command whose streams have ended; None if it goes on nevertheless, and was killed."""
    try:
        done = api.finished(begun, path, max(1.0, deadline.left_s))
    except TimedOut:
        end_streams(streams)
        return None
    return int(done["metadata"]["return"])


def end_streams(streams: Iterable[Connection]) -> None:
    """End the streams: LXD then kills the command; what that left behind in the node is the node's own.

    No control stream is connected for that: docs/decisions.md says why. A goodbye would wait for ever for what is still
    written to a stream.
    """
    for stream in streams:
        with suppress(OSError):
            stream.socket.shutdown(socket.SHUT_RDWR)
