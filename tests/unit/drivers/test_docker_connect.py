from __future__ import annotations

import json
import os
import platform
import re
import socket
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError, HostNotReady
from gpuprov.drivers.docker import connect as module
from gpuprov.drivers.docker.api import Conflict, NotFound, error_from
from gpuprov.drivers.registry import open_driver
from gpuprov.machine.docker_daemon import ask_daemon

if TYPE_CHECKING:
    from collections.abc import Iterator


PACKAGE = Path(module.__file__).parents[2]
# The SDK forgets the socket of a failed connection; it is collected here and not in somebody else's test.
pytestmark = pytest.mark.usefixtures("own_garbage")
leaky = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


def refusal() -> HostNotReady:
    with pytest.raises(HostNotReady) as caught:
        open_driver("docker")
    assert caught.value.exit_code == 3
    assert caught.value.evidence
    assert caught.value.fix
    return caught.value


@contextmanager
def daemon(path: Path, answer: dict[str, object]) -> Iterator[None]:
    """Something that answers every request at a socket with this document; 400 where its API is below MinAPIVersion."""

    def reply(request: bytes) -> bytes:
        asked, least = (re.search(rb"/v1\.(\d+)/", request), str(answer.get("MinAPIVersion", "1.0")).partition(".")[2])
        status = "400 Bad Request" if asked and int(asked[1]) < int(least) else "200 OK"
        body = json.dumps(answer).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return f"{head}Connection: close\r\n\r\n".encode() + body

    def serve(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.sendall(reply(connection.recv(65536)))

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    error = refusal()
    assert "docker is not running" in error.what
    assert str(tmp_path / "docker.sock") in error.evidence
    assert "host prepare --engine docker" in error.fix


def test_a_socket_that_this_user_may_not_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker.sock").touch()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    monkeypatch.setattr(os, "access", lambda *_: False)
    error = refusal()
    assert "has no access to docker" in error.what
    assert "usermod -aG" in error.fix


@leaky
@pytest.mark.parametrize("address", ["unix://{}/docker.sock", "http+unix://{}/docker.sock"])
def test_nothing_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "docker.sock"))  # nobody listens
    monkeypatch.setenv("DOCKER_HOST", address.format(tmp_path))
    assert "does not respond" in refusal().what


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:{}", "127.0.0.1:{}", "ssh://root@gpu2", "/docker.sock", "unix://"]
)
def test_an_address_that_is_not_a_socket_is_refused_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        monkeypatch.setenv("DOCKER_HOST", address.format(server.getsockname()[1]))
        error = refusal()
        with pytest.raises(BlockingIOError):  # nobody has come
            server.accept()
    assert error.what == "gpuprov does not support a remote Docker daemon"
    assert os.environ["DOCKER_HOST"] in error.evidence
    assert error.fix.startswith("unset DOCKER_HOST")


@pytest.mark.parametrize("other", [{"Name": "gpu2"}, {"KernelVersion": "6.6.0-linuxkit"}])
def test_a_socket_of_another_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, object]
) -> None:
    here: dict[str, object] = {"Name": platform.node(), "KernelVersion": platform.release()}
    answer = {"Version": "x", "ApiVersion": "1.41", **here}
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with daemon(tmp_path / "docker.sock", answer):
        module.connect("docker")._api.client.close()
    (tmp_path / "docker.sock").unlink()
    with daemon(tmp_path / "docker.sock", {**answer, **other}):
        error = refusal()
    assert error.what == "docker runs on another machine"
    assert str(next(iter(other.values()))) in error.evidence


def test_contexts_and_certificates_for_other_machines_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "elsewhere")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with daemon(tmp_path / "docker.sock", {"Version": "x", "ApiVersion": "1.41"}):
        driver = module.connect("docker")
    argv = driver.attach_argv("c000", ["id"], environment={})
    assert argv[:4] == ["docker", "--host", f"unix://{tmp_path}/docker.sock", "exec"]
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("os.isatty", lambda _descriptor: True)
    assert "--tty" in driver.attach_argv("c000", ["id"], environment={})
    assert "--tty" not in driver.attach_argv("c000", ["id"], environment={}, piped=True)
    driver._api.client.close()


def test_an_old_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with daemon(tmp_path / "docker.sock", {"Version": "19.03.15", "ApiVersion": "1.40"}):
        error = refusal()
    assert "19.03.15 is too old" in error.what
    assert "1.41" in error.evidence


@pytest.mark.parametrize(("api", "least"), [("1.41", "1.12"), ("1.44", "1.24"), ("1.52", "1.44")])
def test_a_daemon_s_own_api_is_spoken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: str, least: str) -> None:
    """Docker 29.0 refuses what Docker 20.10 speaks."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with daemon(tmp_path / "docker.sock", {"Version": "x", "ApiVersion": api, "MinAPIVersion": least}):
        driver = module.connect("docker")
        assert ask_daemon(tmp_path / "docker.sock", "/info")
    assert driver._api.client.api_version == api
    driver._api.client.close()


@pytest.mark.parametrize("version", [{}, {"ApiVersion": "1.9"}])
def test_versions_are_compared_by_number(version: dict[str, object]) -> None:
    with pytest.raises(HostNotReady):
        module.require_api(version)


@pytest.mark.parametrize(
    ("status", "reason", "kind", "fix"),
    [
        (404, "No such image: gpuprov-image:x", NotFound, "image list"),
        (409, 'Conflict. The container name "/c000" is already in use', Conflict, "gpuprov list"),
        (403, "Pool overlaps with other one on this address space", EngineError, "network.subnet"),
        (
            500,
            "driver failed programming: Bind for 0.0.0.0:80 failed: port is already allocated",
            EngineError,
            "ss -ltnp",
        ),
        (
            400,
            'invalid mount config for type "bind": bind source path does not exist: /usr/lib/libcuda.so.550',
            EngineError,
            "gpuprov cluster up",
        ),
        (500, "something else", EngineError, "gpuprov doctor"),
        (500, "", EngineError, "gpuprov doctor"),
    ],
)
def test_errors_have_three_parts(status: int, reason: str, kind: type[EngineError], fix: str) -> None:
    error = error_from(status, reason, "post /x")
    assert type(error) is kind
    assert error.evidence
    assert fix in error.fix


def test_nobody_names_a_version_of_docker_s_api_but_its_driver() -> None:
    """The daemon's own is meant then."""
    for path in PACKAGE.rglob("*.py"):
        assert "/v1.4" not in path.read_text(), path
