"""The services of examples/stack, as programs on this machine: what they answer, also to nonsense."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.unit.gpuwork.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

STACK = Path(__file__).parents[2] / "examples/stack"
SMI = "#!/bin/sh\necho 'GPU 0: SIMULATED (UUID: GPU-1)'\n"


def ask(port: int, page: str, body: bytes | None = None) -> tuple[int, str]:
    """Status and text of a page."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{page}", data=body)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a trainer whose neighbour does not answer."""
    folder = tmp_path_factory.mktemp("bin")
    smi = folder / "nvidia-smi"
    smi.write_text(SMI)
    smi.chmod(0o755)
    with closing(socket.socket()) as one, closing(socket.socket()) as two:
        for free in (one, two):
            free.bind(("127.0.0.1", 0))
        port, closed = one.getsockname()[1], two.getsockname()[1]
    variables = {"PATH": f"{folder}:{os.environ['PATH']}", "PORT": str(port), "TASK": "trainer"}
    variables |= {"HOUDINI_GPU_REQUESTED": "1", "PEERS": f"127.0.0.1:{port} 127.0.0.1:{closed}", "SECRET": "s3cret"}
    with subprocess.Popen([sys.executable, str(STACK / "service.py")], env=variables) as service:
        try:
            wait_until(lambda: listens(port), "it does not listen")
            yield port
        finally:
            service.terminate()
    assert service.returncode == 0


def test_a_service_says_who_it_is_and_what_it_sees(port: int) -> None:
    assert ask(port, "/cntname") == (200, f"{socket.gethostname()}\n")
    assert ask(port, "/task") == (200, "trainer\n")
    gpus = "HOUDINI_GPU_REQUESTED=1\nGPU 0: SIMULATED (UUID: GPU-1)\n"
    assert ask(port, "/gpus") == (200, gpus)
    status, page = ask(port, "/")
    assert (status, page.count("UUID: GPU-1"), page.count("does not answer")) == (200, 1, 1)
    assert "s3cret" not in page + ask(port, "/gpus")[1]
    body = f'{{"proto": "http", "host": "127.0.0.1", "port": {port}, "path": "/gpus"}}'
    assert ask(port, "/callmeback", body.encode()) == (200, gpus)


@pytest.mark.parametrize(
    ("page", "body", "status"),
    [
        ("/nothing", None, 404),
        ("/gpus", b"{}", 400),
        ("/callmeback", b"", 400),
        ("/callmeback", b"[]", 400),
        ("/callmeback", b"{", 400),
        ("/callmeback", b'{"proto": "file", "host": "", "port": 1, "path": "/etc/passwd"}', 400),
        ("/callmeback", b'{"proto": "http", "host": "127.0.0.1", "port": "x", "path": "/"}', 400),
        ("/callmeback", b'{"proto": "http", "host": "127.0.0.1", "port": 1, "path": "/"}', 502),
        ("/callmeback", b" " * 70000, 400),
    ],
)
def test_nonsense_is_answered(port: int, page: str, body: bytes | None, status: int) -> None:
    assert ask(port, page, body)[0] == status


def test_only_the_trainer_asks_for_a_gpu_and_each_knows_all() -> None:
    services = yaml.safe_load((STACK / "compose.yaml").read_text())["services"]
    asking = [name for name, one in services.items() if "HOUDINI_GPU_REQUESTED" in one["environment"]]
    assert asking == [name for name, one in services.items() if "runtime" in one] == ["trainer"]
    for name, one in services.items():
        assert one["hostname"] == name
        assert one["environment"]["PEERS"].split() == [
            f"{peer}:{service['environment']['PORT']}" for peer, service in services.items()
        ]
