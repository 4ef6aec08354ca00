"""Which ended containers are removed from Docker, and what is asked of it for that."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.machine.runtime_program import find_python
from gpuprov.runtime.engines import Place
from gpuprov.runtime.removal import may_remove, remove_ended
from gpuprov.runtime.settings import Settings, render_settings
from tests.unit.runtime.copied import copy_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JUDGED, ENDED = "2026-01-01T10:00:00", "2026-01-01T10:05:00"
RUN = {"StartedAt": f"{JUDGED}.5Z", "FinishedAt": "2026-01-01T10:04:59.999999999Z"}
PATH = "/containers/abc"


def container(status: str = "exited", labels: Any = None, **host: Any) -> dict[str, Any]:
    state = {"Status": status, **RUN}
    return {"State": state, "HostConfig": {"AutoRemove": False, **host}, "Config": {"Labels": labels}}


@pytest.mark.parametrize(
    ("said", "removed"),
    [
        (container(), True),
        (container(RestartPolicy={"Name": "no", "MaximumRetryCount": 0}, labels={"a": "b"}), True),
        (container(RestartPolicy={"Name": ""}), True),
        *((container(RestartPolicy={"Name": name}), False) for name in ("always", "unless-stopped", "on-failure")),
        *((container(name), False) for name in ("created", "running", "paused", "restarting", "removing", "dead")),
        (container(AutoRemove=True), False),
        (container(LogConfig={"Type": "json-file", "Config": {}}), True),
        (container(LogConfig={"Type": "none", "Config": {}}), False),
        (container(labels={"gpuprov.cluster": "lab"}), False),
    ],
)
def test_only_what_has_ended_for_good(said: dict[str, Any], *, removed: bool) -> None:
    assert may_remove(said, judged=JUDGED, ended=ENDED) == removed


@pytest.mark.parametrize(
    "run",
    [
        {"StartedAt": "2026-01-01T09:59:59.9Z"},  # its start was refused after it was judged
        {"StartedAt": "2026-01-01T10:05:01Z", "FinishedAt": "2026-01-01T10:05:02Z"},  # it was started again
        {"StartedAt": "0001-01-01T00:00:00Z", "FinishedAt": "0001-01-01T00:00:00Z"},
    ],
)
def test_only_the_run_that_was_judged(run: dict[str, str]) -> None:
    said = container()
    assert not may_remove({**said, "State": {**said["State"], **run}}, judged=JUDGED, ended=ENDED)


@contextmanager
def docker(place: Path, answer: bytes, asked: list[str]) -> Iterator[None]:
    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline().decode().split()
            asked.append(" ".join(line[:2]))
            self.wfile.write(answer if line[0] == "GET" else b"HTTP/1.0 204 No Content\r\n\r\n")

    with ThreadingUnixStreamServer(str(place), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


def answer_of(said: object) -> bytes:
    return b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(said).encode()


@pytest.mark.parametrize(
    ("answer", "removed"),
    [
        (answer_of(container()), True),
        (answer_of(container("running")), False),
        (b"HTTP/1.0 404 no\r\n\r\n{}", False),
        (answer_of({}), False),
        (answer_of([]), False),
        (answer_of(None), False),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 100_000, False),
    ],
)
def test_docker_is_asked_once_and_without_force(tmp_path: Path, answer: bytes, *, removed: bool) -> None:
    asked: list[str] = []
    with docker(tmp_path / "s", answer, asked):
        remove_ended("abc", [str(tmp_path / "s")], judged=JUDGED, ended=ENDED)
    assert asked == [f"GET {PATH}/json", *([f"DELETE {PATH}?v=1"] if removed else [])]


def test_a_docker_that_starts_again_is_waited_for_and_one_that_does_not_is_left(tmp_path: Path) -> None:
    place, asked = tmp_path / "s", list[str]()
    remove_ended("abc", [str(place)], judged=JUDGED, ended=ENDED, patience_s=0.1)
    with docker(place, b"", asked):
        remove_ended("abc", [str(place)], judged=JUDGED, ended=ENDED, patience_s=0.1)
    assert asked == [f"GET {PATH}/json"]
    place.unlink()
    waits = Thread(target=lambda: remove_ended("abc", [str(place)], judged=JUDGED, ended=ENDED, patience_s=30))
    waits.start()
    with docker(place, answer_of(container()), asked):
        waits.join(30)
    assert asked[-1] == f"DELETE {PATH}?v=1"


@pytest.mark.slow
def test_the_copied_program_asks_its_own_docker(tmp_path: Path) -> None:
    """By Python as the front runs it."""
    program, library = copy_runtime(tmp_path, gpus=1, runc=tmp_path)
    places = [Place(engine="lxd", sockets=("/nowhere",)), Place(engine="docker", sockets=(str(tmp_path / "s"),))]
    settings = Settings(engines=(*places, Place(engine="docker", sockets=("/other",))))
    (program.folder / "settings.json").write_text(render_settings(settings))
    script = str(library / "gpuprov/runtime/remove.py")
    asked: list[str] = []
    with docker(tmp_path / "s", answer_of(container()), asked):
        words = [str(library), str(program.folder), "abc", JUDGED, ENDED]
        command = [str(find_python()), "-I", "-S", "-W", "error", script, *words]
        done = subprocess.run(command, env={}, capture_output=True, text=True, check=False, cwd=os.sep)
    assert (done.returncode, done.stderr) == (0, "")
    assert asked == [f"GET {PATH}/json", f"DELETE {PATH}?v=1"]
