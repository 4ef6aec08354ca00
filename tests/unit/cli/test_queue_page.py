"""`gpuprov queue page` over a fake engine: the address and password that it prints, and all that it refuses."""

from __future__ import annotations

import base64
import json
import re
import socket
import sys
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli.main import main
from gpuprov.core.relay import Relay
from gpuprov.drivers.base import File
from gpuprov.lifecycle.find_controller import get_queue_page
from gpuprov.lifecycle.start_stop import stop_nodes
from gpuprov.roles.worker.facts import BROKER, FLOWER
from gpuprov.roles.worker.files import page_password
from gpuprov.shapes.cluster_spec import NodesSpec, WorkerSpec
from gpuprov.stories.queue_page import _require_answer
from tests.fakes.driver import FakeDriver
from tests.schemas import validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fakes.world import World
    from tests.unit.cli.conftest import Typed

LIMIT_S = 20
INTERRUPTED = 130


@pytest.fixture
def workers(typed: Typed) -> World:
    """A cluster of two workers."""
    return bring_up(typed.world)


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        found: int = free.getsockname()[1]
        return found


@pytest.fixture
def served_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ctrl-C is pressed as soon as connections are taken; where that was."""
    ports: list[int] = []

    def serve(relay: Relay) -> None:
        ports.append(relay.port)
        raise KeyboardInterrupt

    monkeypatch.setattr(Relay, "serve", serve)
    return ports


def bring_up(world: World, *, role: str = "worker", **more: Any) -> World:
    world.up(spec=world.spec(nodes=NodesSpec(count=2, role=role), share=True, **more))
    return world


def password_of(world: World) -> str:
    found = re.search(r":([0-9a-f]{64})@", world.file("c000", BROKER))
    assert found
    return page_password(found[1].encode())


def test_address_user_and_password_are_printed_before_it_relays(
    workers: World, port: int, served_once: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["queue", "page", "--port", str(port)], host=workers.host) == INTERRUPTED
    expected = [f"address: http://127.0.0.1:{port}/", "user: gpuprov", f"password: {password_of(workers)}"]
    assert capsys.readouterr().out.splitlines() == expected
    assert served_once == [port]
    with socket.create_server(("127.0.0.1", port)):  # it has let the port go
        pass


@pytest.mark.usefixtures("served_once")
def test_the_document_is_one_and_as_its_schema_says(
    workers: World, port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--json", "queue", "page", "--port", str(port)], host=workers.host) == INTERRUPTED
    told = json.loads(capsys.readouterr().out)
    assert validate(told) == "gpuprov.queue-page/v1"
    assert (told["cluster"], told["node"], told["password"]) == ("lab", "c000", password_of(workers))


@pytest.mark.usefixtures("served_once")
def test_the_log_of_the_run_has_no_password(workers: World, port: int, logs: Any) -> None:
    main(["queue", "page", "--port", str(port)], host=workers.host)
    written = "".join(path.read_text() for path in logs.rglob("*") if path.is_file())
    assert "interrupted" in written
    assert password_of(workers) not in written


class Flower(BaseHTTPRequestHandler):
    """Lets in whoever has the credentials of its server."""

    def do_GET(self) -> None:
        ok = self.headers.get("Authorization") == self.server.credentials  # type: ignore[attr-defined]
        self.send_response(200 if ok else 401)
        self.end_headers()
        self.wfile.write(b"queue" if ok else b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def flower(workers: World) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Flower)
    typed = base64.b64encode(f"gpuprov:{password_of(workers)}".encode()).decode()
    server.credentials = f"Basic {typed}"  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(LIMIT_S)


@pytest.mark.slow
def test_a_browser_gets_to_the_page_with_the_password_alone(
    workers: World,
    flower: ThreadingHTTPServer,
    port: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The node is this machine: the real programs at both ends."""
    asked: list[tuple[str, ...]] = []

    def attach(_driver: FakeDriver, name: str, argv: Any, *, environment: Any, piped: bool) -> list[str]:
        asked.append((name, *argv))
        assert (environment, piped) == ({}, True)
        return [sys.executable, *argv[2:-1], str(flower.server_port)]  # -I finds it where it is installed

    monkeypatch.setattr(FakeDriver, "attach_argv", attach)
    statuses = []
    serve = Relay.serve

    def browse() -> None:
        (typed,) = [flower.credentials]  # type: ignore[attr-defined]
        for headers in ({}, {"Authorization": "Basic eDp5"}, {"Authorization": typed}):
            request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                    statuses.append((answer.status, answer.read()))
            except urllib.error.HTTPError as error:
                statuses.append((error.code, b""))

    def serve_until_browsed(relay: Relay) -> None:
        def serve_until_closed() -> None:
            with suppress(OSError):
                serve(relay)

        threading.Thread(target=serve_until_closed, daemon=True).start()
        browse()
        raise KeyboardInterrupt

    monkeypatch.setattr(Relay, "serve", serve_until_browsed)
    assert main(["queue", "page", "--port", str(port)], host=workers.host) == INTERRUPTED
    assert statuses == [(401, b""), (401, b""), (200, b"queue")]
    assert asked == [("c000", "python3", "-I", "-m", "gpuwork.relay", "5555")]
    assert "did not answer" not in capsys.readouterr().err


def refused(world: World, capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str, str]:
    capsys.readouterr()
    code = main(["--json", "queue", "page", *argv], host=world.host)
    error = json.loads(capsys.readouterr().out)["error"]
    return code, error["what"], error["evidence"], error["fix"]


def test_a_port_that_is_taken_is_named_with_another_one(
    workers: World, port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", port)):
        code, what, evidence, fix = refused(workers, capsys, "--port", str(port))
    assert (code, what) == (2, f"port {port} of this host cannot be used for the page")
    assert "in use" in evidence
    assert fix == f"use another one: gpuprov queue page --port {port % 10_000 + 10_000}"
    for none in ("0", "65536", "x"):
        assert refused(workers, capsys, "--port", none)[0] == 2


def test_a_cluster_without_workers_has_none(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    world = bring_up(typed.world, role="slurm")
    assert refused(world, capsys) == (
        2,
        "cluster lab has no queue with a page",
        "its nodes are for: slurm; workers have one",
        "list its jobs: gpuprov jobs",
    )
    assert refused(world, capsys, "--cluster", "other")[1] == "the cluster other has no nodes"


def test_a_broker_of_the_user_s_has_none(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    world = bring_up(typed.world, worker=WorkerSpec(broker="redis://:pass@10.1.1.1/0"))
    assert not any(FLOWER in node.files for node in world.engine.nodes.values())
    code, what, evidence, fix = refused(world, capsys)
    assert (code, what, fix) == (2, "cluster lab has no page of its queue", "list its jobs: gpuprov jobs")
    assert "worker.broker" in evidence
    assert "pass@" not in evidence


def test_a_stopped_broker_is_to_be_started(workers: World, capsys: pytest.CaptureFixture[str]) -> None:
    stop_nodes(workers.driver, ["c000"], workers.host, reporter=workers.reporter)
    code, what, _, fix = refused(workers, capsys)
    assert (code, what) == (2, "cluster lab has no page of its queue now: c000 is stopped")
    assert fix == "start it: gpuprov start c000"


def test_a_page_that_does_not_answer_is_told_with_what_to_look_at(
    workers: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPROV_SILENCE_S", "1")  # else it is asked for 15 s
    workers.workers.broken.add("c000")
    assert refused(workers, capsys) == (
        4,
        "the page does not answer on c000",
        "127.0.0.1:5555: refused",
        "gpuprov exec c000 -- systemctl status gpuwork-flower",
    )


def test_a_page_that_starts_is_waited_for(workers: World) -> None:
    workers.workers.broken.add("c000")
    workers.engine.faults.at("run", subject="c000", nth=3, act=lambda: workers.workers.broken.remove("c000"))
    _require_answer(workers.driver, get_queue_page(workers.driver, "lab"), "lab")
    assert not workers.workers.broken


def test_an_image_without_the_program_is_to_be_made_again(
    workers: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = replace(workers.workers(_question(workers)), exit_code=1, stderr="python3: No module named gpuwork.relay")
    monkeypatch.setattr(type(workers.workers), "__call__", lambda _self, _command: answer)
    code, what, evidence, fix = refused(workers, capsys)
    assert code == 4
    assert "the image of c000 does not support" in what
    assert "No module named" in evidence
    assert fix.endswith("gpuprov cluster down; gpuprov cluster up")


def _question(world: World) -> Any:
    from tests.fakes.engine import Command

    argv = ("python3", "-I", "-m", "gpuwork.relay", "5555")
    return Command(node=world.engine.nodes["c000"], argv=argv, cwd=None, environment={}, timeout_s=1.0)


HOSTILE = [
    b"",
    b'basic_auth = ["gpuprov:short"]\n',
    b'basic_auth = ["gpuprov:' + b"A" * 32 + b'"]\n',
    b'basic_auth = ["root:' + b"a" * 32 + b'"]\n',
    b'basic_auth = ["gpuprov:' + b"a" * 31 + b'\x1b"]\n',
    b"\xff" * 4000,
    b"# " * 2040 + b'\nbasic_auth = ["gpuprov:' + b"a" * 32 + b'"]\n',
]


@pytest.mark.parametrize("content", [*HOSTILE, None], ids=range(len(HOSTILE) + 1))
def test_what_root_in_the_node_wrote_in_place_of_the_password_is_not_shown(
    workers: World, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    files = workers.engine.nodes["c000"].files
    if content is None:
        del files[FLOWER]
    else:
        files[FLOWER] = File(path=FLOWER, content=content)
    code, what, evidence, fix = refused(workers, capsys)
    assert (code, what) == (4, "c000 has no page of the queue")
    assert evidence
    assert "aaaa" not in evidence.lower()
    assert fix == "write the file again: gpuprov cluster up"
