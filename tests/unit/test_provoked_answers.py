"""Whatever an engine answers, and where it answers nothing: what it said, or who saw that it did not, reaches the user.

Each row of the table is what comes from an engine's socket, what is asked of it, and words that the error must have.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import docker
import pylxd
import pytest

from gpuprov.core.errors import EngineError, GpuprovError, TimedOut
from gpuprov.drivers.calls import Call
from gpuprov.drivers.docker import images as docker_images
from gpuprov.drivers.docker.api import DockerApi
from gpuprov.drivers.docker.execute import execute
from gpuprov.drivers.docker.jobs import run_made
from gpuprov.drivers.docker.last_words import read_container_log
from gpuprov.drivers.lxd import images as lxd_images
from gpuprov.drivers.lxd.api import LxdApi, NotFound
from tests.fakes.answers import NEVER, Late, answering, http

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def sync(metadata: object) -> bytes:
    return http(200, json.dumps({"type": "sync", "metadata": metadata}))


def operation(**said: object) -> bytes:
    return sync({"id": "op1", **said})


SERVER = sync({"auth": "trusted", "environment": {}, "api_extensions": []})
BEGUN = http(202, json.dumps({"operation": "/1.0/operations/op1"}))
PAGE = http(502, "<html>proxy: no route</html>", kind="text/html")


def lxd(place: Path) -> LxdApi:
    endpoint = f"http+unix://{str(place).replace('/', '%2F')}"
    return LxdApi(pylxd.Client(endpoint=endpoint, timeout=1.0), engine="lxd", socket=place)


def docker_of(place: Path) -> DockerApi:
    return DockerApi(docker.APIClient(f"unix://{place}", version="1.41"), address=f"unix://{place}")


def ask_lxd(place: Path) -> None:
    lxd(place).get("instances")


def change_lxd(place: Path) -> None:
    lxd(place).send("post", "instances", body={"name": "c000"})


def import_to_lxd(place: Path) -> None:
    tar = place.with_name("rootfs.tar")
    tar.write_bytes(b"tar")
    lxd_images.import_rootfs(lxd(place), "base", str(tar), {})


def ask_docker(place: Path) -> None:
    docker_of(place).get("/info")


def import_to_docker(place: Path) -> None:
    tar = place.with_name("rootfs.tar")
    tar.write_bytes(b"tar")
    docker_images.import_rootfs(docker_of(place), "base", str(tar), {})


def log_of_docker(place: Path) -> None:
    read_container_log(docker_of(place), "ab" * 32)


def command_in_docker(place: Path) -> None:
    execute(docker_of(place), "ab" * 32, Call(argv=["true"], timeout_s=5.0))


def job_in_docker(place: Path) -> None:
    run_made(docker_of(place), "ab" * 32, started=lambda: None, write=lambda *_: None)


ABSENT = http(404, '{"message": "no such image"}')
EXEC = http(201, '{"Id": "e1"}')
STREAM = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: close\r\n\r\n"
TABLE: dict[str, tuple[Callable[[Path], None], tuple[bytes, ...], str]] = {
    "lxd: it says nothing": (ask_lxd, (SERVER, NEVER), "Read timed out. (read timeout=1.0)"),
    "lxd: it goes away in the middle": (ask_lxd, (SERVER, http(200, '{"metad', length=500)), "IncompleteRead"),
    "lxd: it is no LXD": (ask_lxd, (SERVER, http(200, "<html>hello")), "<html>hello"),
    "lxd: JSON that breaks off": (ask_lxd, (SERVER, http(200, '{"type": "sync", "na')), '{"type": "sync", "na'),
    "lxd: an answer without what was asked for": (ask_lxd, (SERVER, http(200, '{"type": "sync"}')), "lacks metadata"),
    "lxd: a page of a proxy": (ask_lxd, (SERVER, PAGE), "proxy: no route"),
    "lxd: a failure without words": (ask_lxd, (SERVER, http(500, "")), "status 500"),
    "lxd: a failure whose words are empty": (ask_lxd, (SERVER, http(500, '{"error": ""}')), '{"error": ""}'),
    "lxd: an answer in no encoding": (
        ask_lxd,
        (SERVER, b"HTTP/1.1 500 X\r\nContent-Length: 9\r\n\r\n\xff\xfe broken"),
        "broken",
    ),
    "lxd: an operation that fails": (
        change_lxd,
        (SERVER, BEGUN, operation(status_code=400, status="Failure", err="Failed to run: mkfs: no space")),
        "mkfs: no space",
    ),
    "lxd: an operation whose metadata say why it failed": (
        change_lxd,
        (
            SERVER,
            BEGUN,
            operation(status_code=400, status="Failure", err="", metadata={"error": "quota of the project"}),
        ),
        "quota of the project",
    ),
    "incus: an operation that fails": (
        change_lxd,
        (
            SERVER,
            BEGUN,
            http(400, '{"type": "error", "error": "Failed getting root disk: none"}'),
            operation(status_code=400, status="Failure", err="Failed getting root disk: none"),
        ),
        "Failed getting root disk",
    ),
    "incus: an operation that failed and is gone": (
        change_lxd,
        (
            SERVER,
            BEGUN,
            http(400, '{"type": "error", "error": "Failed getting root disk: none"}'),
            http(404, '{"error": "Operation not found", "error_code": 404}'),
        ),
        "Failed getting root disk",
    ),
    "lxd: an operation that never ends": (
        change_lxd,
        (
            SERVER,
            BEGUN,
            operation(status_code=103, status="Running", metadata={"unpack_progress": "Unpack: 7%"}),
        ),
        "operation op1: Running, Unpack: 7%",
    ),
    "incus: an operation that never ends": (
        change_lxd,
        (SERVER, BEGUN, http(500, '{"error": "context deadline exceeded"}')),
        "context deadline exceeded",
    ),
    "lxd: an image that it refuses": (
        import_to_lxd,
        (
            SERVER,
            sync([]),
            BEGUN,
            operation(status_code=400, err="no space left on device"),
        ),
        "no space left on device",
    ),
    "docker: it says nothing": (ask_docker, (NEVER,), "Read timed out. (read timeout=1.0)"),
    "docker: it goes away in the middle": (ask_docker, (http(200, '{"Na', length=500),), "IncompleteRead"),
    "docker: it is no Docker": (ask_docker, (http(200, "<html>hello"),), "<html>hello"),
    "docker: JSON that breaks off": (ask_docker, (http(200, '{"Name": "c0'),), '{"Name": "c0'),
    "docker: a page of a proxy": (ask_docker, (PAGE,), "proxy: no route"),
    "docker: its socket is closed": (ask_docker, (b"HTTP/1.1",), "Connection aborted"),
    "docker: an image that it refuses": (
        import_to_docker,
        (ABSENT, http(500, '{"message": "write /var/lib/docker/tmp: no space left on device"}')),
        "no space left on device",
    ),
    "docker: an image that fails half-way": (
        import_to_docker,
        (ABSENT, http(200, '{"status": "Importing"}\n{"errorDetail": {"message": "archive/tar: invalid header"}}\n')),
        "invalid header",
    ),
    "docker: an import that breaks off": (
        import_to_docker,
        (ABSENT, http(200, '{"status": "Importing"}\n{"status": "Impo')),
        'breaks off: {"status": "Impo',
    ),
    "docker: an import that makes nothing": (import_to_docker, (ABSENT, http(200, ""), ABSENT), "reported only"),
    "docker: a log that breaks off": (
        log_of_docker,
        (http(200, "\x01\0\0\0\0\0\0\x09ab", length=90),),
        "IncompleteRead",
    ),
    "docker: a command without a status": (
        command_in_docker,
        (EXEC, STREAM.encode(), http(200, '{"ID": "e1", "Running": false, "CanRemove": false}')),
        "'CanRemove': False",
    ),
    "docker: a command whose output breaks off": (
        command_in_docker,
        (EXEC, http(200, "\x01\0\0\0\0\0\0\x09ab", length=90), http(500, "")),
        "IncompleteRead",
    ),
    "docker: a job whose end is not told": (
        job_in_docker,
        (http(200, ""), STREAM.encode(), http(204, ""), http(304, ""), http(200, '{"State": {"ExitCode": 0}}')),
        "an empty answer",
    ),
}


@pytest.mark.parametrize("failure", TABLE)
def test_the_cause_is_in_the_message(failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask, answers, words = TABLE[failure]
    monkeypatch.setenv("GPUPROV_SILENCE_S", "1")
    with answering(tmp_path / "socket", *answers) as place, pytest.raises(GpuprovError) as caught:
        ask(place)
    assert words in caught.value.evidence
    assert caught.value.fix
    assert isinstance(caught.value, TimedOut) == failure.endswith(("says nothing", "lxd: an operation that never ends"))


def test_a_network_that_docker_has_not_loaded_needs_a_restart_of_docker(tmp_path: Path) -> None:
    refusal = http(500, '{"message": "failed to create endpoint c002 on network gpbr1: network id 6f03 not found"}')
    with answering(tmp_path / "socket", refusal) as place, pytest.raises(EngineError) as caught:
        ask_docker(place)
    assert caught.value.fix.endswith("systemctl restart docker")


@pytest.mark.slow
@pytest.mark.parametrize("ask", [ask_lxd, ask_docker])
def test_silence_is_told_with_its_limit_and_how_to_allow_more(
    ask: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPROV_SILENCE_S", "1")
    answers = (SERVER, NEVER) if ask is ask_lxd else (NEVER,)
    with answering(tmp_path / "socket", *answers) as place, pytest.raises(TimedOut, match="within 1 s") as caught:
        ask(place)
    assert caught.value.fix.endswith("export GPUPROV_SILENCE_S=4")
    assert "gpuprov doctor --engine" in caught.value.fix


@pytest.mark.slow
def test_an_operation_that_reports_progress_may_take_as_long_as_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPROV_SILENCE_S", "1")
    monkeypatch.setattr("gpuprov.drivers.lxd.operations._ROUND_S", 0.1)
    running = partial(operation, status_code=103, status="Running")
    rounds = [Late(running(updated_at=f"12:00:0{number}")) for number in range(6)]
    ended = operation(status_code=200, status="Success", metadata=None)
    with answering(tmp_path / "socket", SERVER, BEGUN, *rounds, ended) as place:
        assert lxd(place).send("post", "instances", body={"name": "c000"})["status"] == "Success"
    stuck = [Late(running(updated_at="12:00:00"))] * 6
    with answering(tmp_path / "other", SERVER, BEGUN, *stuck, ended) as place, pytest.raises(TimedOut) as caught:
        change_lxd(place)
    assert caught.value.what == "lxd reported no progress for 1 s: create c000"
    assert caught.value.fix.startswith("inspect it: lxc operation show op1; ")
    assert caught.value.fix.endswith("export GPUPROV_SILENCE_S=4")


def test_an_operation_that_incus_says_goes_on_is_asked_for_again(tmp_path: Path) -> None:
    answers = (
        SERVER,
        BEGUN,
        http(500, '{"error": "context deadline exceeded"}'),
        operation(status_code=103, status="Running"),
        operation(status_code=200, status="Success"),
    )
    with answering(tmp_path / "socket", *answers) as place:
        assert lxd(place).send("post", "instances", body={"name": "c000"})["status"] == "Success"


def test_a_command_that_incus_does_not_find_has_its_status(tmp_path: Path) -> None:
    answers = (
        SERVER,
        BEGUN,
        http(404, '{"error": "Command not found", "error_code": 404}'),
        operation(status_code=400, status="Failure", err="Command not found", metadata={"return": 127}),
    )
    with answering(tmp_path / "socket", *answers) as place:
        assert lxd(place).send("post", "instances", "c000", "exec", body={})["metadata"] == {"return": 127}


def test_what_an_engine_does_not_find_is_told_apart_from_what_it_cannot_say(tmp_path: Path) -> None:
    nothing = sync([])
    gone = http(404, '{"error": "No such object", "error_code": 404}')
    with answering(tmp_path / "socket", SERVER, nothing, gone, gone) as place:
        assert lxd_images.find_image(lxd(place), "nonesuch") is None
    broken = http(500, '{"error": "database is locked"}')
    with (
        answering(tmp_path / "other", SERVER, nothing, gone, broken) as place,
        pytest.raises(EngineError, match="could not read images/nonesuch") as caught,
    ):
        lxd_images.find_image(lxd(place), "nonesuch")
    assert caught.value.evidence == "database is locked"
    assert not isinstance(caught.value, NotFound)


def test_an_image_that_lxd_takes_is_known_by_its_fingerprint(tmp_path: Path) -> None:
    made = operation(status_code=200, status="Success", metadata={"fingerprint": "f00d", "size": 3})
    tar = tmp_path / "rootfs.tar"
    tar.write_bytes(b"tar")
    with answering(tmp_path / "socket", SERVER, sync([]), BEGUN, made) as place:
        assert lxd_images.import_rootfs(lxd(place), "base", str(tar), {}) == "image:f00d"
