"""The program that ties its streams to a port of its own machine."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from gpuwork import relay
from tests.fakes.worker_bed import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT_S = 20


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], object]], int]]:
    """Has one connection answered by a function; returns the port."""
    threads = []

    def begin(answer: Callable[[socket.socket], object]) -> int:
        listening = socket.create_server(("127.0.0.1", 0))

        def work() -> None:
            with listening, listening.accept()[0] as client:
                answer(client)

        threads.append(threading.Thread(target=work, daemon=True))
        threads[-1].start()
        port: int = listening.getsockname()[1]
        return port

    yield begin
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()


def run(port: int | str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "gpuwork.relay", str(port)]
    return subprocess.run(argv, cwd=ROOT, input=stdin, capture_output=True, timeout=LIMIT_S, check=False)


def test_every_byte_passes_and_the_end_of_stdin_is_told(
    serve: Callable[[Callable[[socket.socket], object]], int],
) -> None:
    def give_back(client: socket.socket) -> None:
        heard = b"".join(iter(lambda: client.recv(65536), b""))
        client.sendall(heard[::-1])

    sent = bytes(range(256)) * 2000
    done = run(serve(give_back), sent)
    assert (done.returncode, done.stdout, done.stderr) == (0, sent[::-1], b"")


def test_it_ends_with_the_other_side_though_stdin_goes_on(
    serve: Callable[[Callable[[socket.socket], object]], int],
) -> None:
    argv = [sys.executable, "-m", "gpuwork.relay", str(serve(lambda client: client.sendall(b"bye")))]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.wait(LIMIT_S) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b"bye"


def test_a_port_on_which_nothing_listens_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = run(port)
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"refused" in done.stderr
    assert run("none").returncode == 2


def test_silence_ends_it(
    serve: Callable[[Callable[[socket.socket], object]], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "_SILENCE_S", 0.2)
    monkeypatch.setattr(relay, "_send", lambda _there: None)
    ended = threading.Event()
    port = serve(lambda _client: ended.wait(LIMIT_S))
    assert relay.main([str(port)]) == 0
    ended.set()
