"""A command in an instance with this process's own streams, where they are no terminal.

LXD's client learns from an event that the command has ended. LXD 5.0 loses such an event now and then under load, and
the client then waits for ever. Here the engine is asked for the end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import ExitStack, suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from gpuprov.core.execution import run_attached
from gpuprov.drivers.calls import Call
from gpuprov.drivers.lxd.execute import end_streams, explain_loss, feed, open_streams, render_call, take_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from websockets.sync.connection import Connection

    from gpuprov.drivers.lxd.api import LxdApi
    from gpuprov.drivers.lxd.execute import Ended

_PIECE_BYTES = 131072
_BROKEN_PIPE = 128 + signal.SIGPIPE  # as a shell has it of a command whose reader went
_NOT_RUN = (126, 127)  # a command that is not there, or no program


def attach(api: LxdApi, name: str, argv: Sequence[str], client: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command in an instance with this process's streams; returns its exit status.

    Args:
        api: The engine.
        name: The instance.
        argv: The command.
        client: The command line of the engine's own client for it, which has the terminal where there is one.
        environment: Variables to add.

    Raises:
        EngineError: A stream broke before its end.
        HostNotReady: What the command prints cannot be written.
    """
    if sys.stdin.isatty() and os.isatty(1):
        return run_attached(client)
    from websockets.exceptions import WebSocketException

    path = ("instances", name, "exec")
    begun = api.begin("post", *path, body=render_call(Call(argv=argv, environment=environment)))
    try:
        with ExitStack() as stack:
            # The control comes first: the command begins when the others are there, and could end as one is added.
            control, source, *outputs = open_streams(api, begun, stack, ("control", "0", "1", "2"))
            try:
                explained = _pass_on(control, source, outputs)
            except BrokenPipeError:
                end_streams((control, source, *outputs))
                return _BROKEN_PIPE
            except BaseException:
                end_streams((control, source, *outputs))
                raise
            done = api.finished(begun, path, float("inf"))
    except (WebSocketException, OSError) as error:
        raise explain_loss(api, name, error) from error
    code = int(done["metadata"]["return"])
    if code in _NOT_RUN and done.get("err") and not explained:
        sys.stderr.write(f"{argv[0]}: {done['err']}\n")
    return code


def _pass_on(control: Connection, source: Connection, outputs: Sequence[Connection]) -> bool:
    """Hand on what is read and written, and Ctrl-C, until the outputs have ended; whether there were errors."""
    explained = threading.Event()

    def print_error(piece: bytes) -> bool:
        explained.set()
        with suppress(OSError):  # nobody could be told
            sys.stderr.buffer.write(piece)
            sys.stderr.buffer.flush()
        return True

    ended: Ended = SimpleQueue()
    signals: SimpleQueue[int] = SimpleQueue()
    threading.Thread(target=_send_signals, args=(control, signals), daemon=True).start()
    typed = iter(partial(os.read, 0, _PIECE_BYTES), b"")
    threading.Thread(target=feed, args=(source, typed, ended), daemon=True).start()
    previous = signal.signal(signal.SIGINT, lambda number, _: signals.put(number))
    try:
        for output, take in zip(outputs, (_print, print_error), strict=True):
            threading.Thread(target=take_in, args=(output, take, ended), daemon=True).start()
        for _ in outputs:
            if (fault := ended.get()) is not None:
                raise fault
    finally:
        signal.signal(signal.SIGINT, previous)
    return explained.is_set()


def _send_signals(control: Connection, signals: SimpleQueue[int]) -> None:
    from websockets.exceptions import ConnectionClosed

    with suppress(ConnectionClosed, OSError):
        while True:
            control.send(json.dumps({"command": "signal", "signal": signals.get()}))


def _print(piece: bytes) -> bool:
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    return True
