"""A command's streams on LXD, where the other side does not read, does not write, or who takes it fails."""

from __future__ import annotations

import socket
import threading
import time
from itertools import repeat
from typing import TYPE_CHECKING, Any, cast

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import unix_serve

from gpuprov.core.errors import EngineError, TimedOut, UsageError
from gpuprov.drivers.calls import Call
from gpuprov.drivers.lxd.execute import execute
from gpuprov.drivers.lxd.start_log import NOT_RUNNING, last_words_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from websockets.sync.server import ServerConnection


class Lxd:
    """An LXD with one command, which reads nothing and prints `said`, a piece each 50 ms, and then nothing."""

    engine = "lxd"

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "socket"
        self.said: list[bytes] = []
        self.ends = self.breaks = False
        self.status = "Running"
        self.killed = threading.Event()
        self.connected: list[str] = []

    def begin(self, *_path: str, body: object) -> dict[str, Any]:
        assert body
        fds = {name: name for name in ("0", "1", "2", "control")}
        return {"metadata": {"id": "op", "metadata": {"fds": fds}}}

    def get(self, *_path: str) -> dict[str, Any]:
        return {"status": self.status}

    def finished(self, *_begun: object) -> dict[str, Any]:
        if not self.ends:
            raise TimedOut("it goes on", evidence="e", fix="f")
        return {"metadata": {"return": 0}}

    def serve(self, connection: ServerConnection) -> None:
        assert connection.request
        stream = connection.request.path.rpartition("=")[2]
        try:
            self.connected.append(stream)
            if stream == "1":
                for piece in self.said:
                    connection.send(piece)
                    time.sleep(0.05)
            if self.breaks:
                connection.socket.shutdown(socket.SHUT_RDWR)
            if self.ends and stream in ("1", "2"):
                connection.send("")
            elif stream == "1":
                connection.recv(timeout=20.0)  # nothing: it ends when the command is to be killed
            over.wait(20.0)
        except ConnectionClosed:
            if stream == "1":
                self.killed.set()


over = threading.Event()


@pytest.fixture
def lxd(tmp_path: Path) -> Iterator[Lxd]:
    made = Lxd(tmp_path)
    over.clear()
    # max_queue: as LXD, it reads no further than somebody asks
    with unix_serve(made.serve, str(made.socket), compression=None, max_queue=1, close_timeout=0.1) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield made
        over.set()
        server.shutdown()
        thread.join()
    assert "control" not in made.connected, "to connect it while the command ends may take down the daemon"


@pytest.mark.slow
def test_what_nobody_reads_is_given_up(lxd: Lxd) -> None:
    call = Call(argv=["tar"], feed=repeat(bytes(131_072)), silence_s=0.3)
    with pytest.raises(TimedOut):
        execute(cast("Any", lxd), "c000", call)
    assert lxd.killed.wait(10)


def test_who_feeds_may_fail(lxd: Lxd) -> None:
    def broken() -> Iterator[bytes]:
        yield b"1"
        raise UsageError("cannot read it", evidence="e", fix="f")

    with pytest.raises(UsageError, match="cannot read it"):
        execute(cast("Any", lxd), "c000", Call(argv=["tar"], feed=broken(), silence_s=10.0))
    assert lxd.killed.wait(10)


def test_who_takes_may_fail(lxd: Lxd) -> None:
    def take(_piece: bytes) -> None:
        raise UsageError("cannot write it", evidence="e", fix="f")

    lxd.said = [b"1"]
    with pytest.raises(UsageError, match="cannot write it"):
        execute(cast("Any", lxd), "c000", Call(argv=["tar"], take=take, silence_s=10.0))
    assert lxd.killed.wait(10)


def test_a_stream_that_breaks_is_told_with_what_broke_it(lxd: Lxd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.drivers.lxd.execute._DEATH_S", 0.2)
    lxd.breaks = True
    with pytest.raises(EngineError, match="connection to lxd was lost while a command was running in c000") as caught:
        execute(cast("Any", lxd), "c000", Call(argv=["true"], timeout_s=5.0))
    assert caught.value.evidence.startswith("ConnectionClosedError: ")
    lxd.status = "Stopped"
    with pytest.raises(EngineError, match="could not run a command in c000") as caught:
        execute(cast("Any", lxd), "c000", Call(argv=["true"], timeout_s=5.0))
    assert caught.value.evidence == NOT_RUNNING


@pytest.mark.slow
def test_what_moves_goes_on_beyond_the_limit_of_silence(lxd: Lxd) -> None:
    taken: list[bytes] = []
    lxd.said, lxd.ends = [b"x"] * 14, True
    output = execute(cast("Any", lxd), "c000", Call(argv=["tar"], take=taken.append, silence_s=0.5))
    assert (output.exit_code, b"".join(taken), output.stdout) == (0, b"x" * 14, b"")


class Full:
    """An LXD that says how many processes an instance has."""

    def __init__(self, processes: int) -> None:
        self.processes = processes

    def get(self, *path: str) -> dict[str, Any]:
        return {"processes": self.processes} if path[-1] == "state" else {"config": {"limits.processes": "300"}}


@pytest.mark.parametrize(("processes", "what"), [(298, "c000 has used up its 300 processes"), (40, "lost")])
def test_an_instance_with_all_its_processes_is_told_as_such(processes: int, what: str) -> None:
    with pytest.raises(EngineError) as raised, last_words_of(cast("Any", Full(processes)), "c000"):
        raise EngineError("lost", evidence="no close frame", fix="f")
    assert (raised.value.what, raised.value.evidence) == (what, "no close frame")
