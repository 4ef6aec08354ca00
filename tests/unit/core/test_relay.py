"""A port on 127.0.0.1 whose connections are tied to commands."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from gpuprov.core import relay as module
from gpuprov.core.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SAYS_WHO = "import os, sys; sys.stdout.write(f'{os.getpid()}\\n'); sys.stdout.flush(); "
DEAF = f"{SAYS_WHO}import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(4711)"
LIMIT_S = 20


@contextmanager
def relaying(*argv: str, silence_s: float = LIMIT_S) -> Iterator[tuple[int, list[str]]]:
    """The port, and the reasons of failures as they come."""
    reasons: list[str] = []
    relay = Relay(0, argv, failed=reasons.append, silence_s=silence_s)

    def serve() -> None:
        with suppress(OSError):  # it is closed
            relay.serve()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with closing(relay):
        yield relay.port, reasons


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), LIMIT_S)


def read_all(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(65536), b""))


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_every_byte_passes_both_ways_and_an_end_ends_the_command() -> None:
    sent = bytes(range(256)) * 4000
    with relaying("cat") as (port, reasons), connect(port) as client:

        def send() -> None:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)

        threading.Thread(target=send).start()
        assert read_all(client) == sent
    assert reasons == []


def test_connections_have_commands_of_their_own() -> None:
    with relaying("cat") as (port, _), connect(port) as first, connect(port) as second:
        for client, word in ((first, b"one"), (second, b"two"), (first, b"three")):
            client.sendall(word)
            assert client.recv(100) == word


def test_it_listens_on_127_0_0_1_alone_and_a_taken_port_is_an_error() -> None:
    with relaying("cat") as (port, _):
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", port), LIMIT_S)
        with pytest.raises(OSError, match="in use"):
            Relay(port, ["cat"], failed=print)


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("sh", "-c", "exit 4"), "exit status 4"),
        (("no-such-client",), "cannot run no-such-client"),
        (("sh", "-c", "echo said; exit 4"), ""),
        (("true",), ""),
    ],
)
def test_a_command_that_fails_without_a_word_is_told(argv: tuple[str, ...], reason: str) -> None:
    with relaying(*argv) as (port, reasons):
        with connect(port) as client:
            read_all(client)
        if reason:
            until(lambda: reasons == [reason])
        with connect(port) as again:
            read_all(again)
    assert set(reasons) == ({reason} if reason else set())


@pytest.mark.slow
def test_a_command_that_is_silent_for_too_long_is_killed_though_it_is_deaf() -> None:
    with relaying(sys.executable, "-c", DEAF, silence_s=0.4) as (port, _), connect(port) as client:
        pid = int(client.recv(100))
        assert client.recv(100) == b""
        until(lambda: not lives(pid))


def test_closing_ends_connections_and_kills_commands_that_are_deaf() -> None:
    with relaying(sys.executable, "-c", DEAF) as (port, reasons):
        client = connect(port)
        pid = int(client.recv(100))
        assert lives(pid)
    assert not lives(pid)
    assert client.recv(100) == b""
    client.close()
    assert reasons == []


def test_a_client_that_goes_away_ends_its_command(tmp_path: Path) -> None:
    with relaying("sh", "-c", f"echo $$; cat; echo gone >{tmp_path}/end") as (port, _):
        with connect(port) as client:
            client.recv(100)
        until((tmp_path / "end").exists)


@pytest.mark.slow
def test_no_more_than_the_most_run_at_once_and_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 2)
    with relaying("cat") as (port, _):
        first, second, third = (connect(port) for _ in range(3))
        for client in (first, second, third):
            client.sendall(b"x")
        assert first.recv(1) == second.recv(1) == b"x"
        third.settimeout(0.5)
        with pytest.raises(TimeoutError):
            third.recv(1)
        first.close()
        third.settimeout(LIMIT_S)
        assert third.recv(1) == b"x"
        for client in (second, third):
            client.close()
