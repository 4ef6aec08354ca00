"""The example web app in a node, reached through a port of the host."""

from __future__ import annotations

import json
import os
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov

NODE = "webnode"
APP = Path(__file__).parents[2] / "examples" / "web"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def app(gpuprov: Gpuprov, cluster: object) -> Iterator[str]:  # noqa: ARG001 - the node joins it
    """A node that serves the app on its port 8080."""
    mount = f"{APP}:/srv/web:ro"
    wanted = ("--cluster", "gpte2e", "--role", "plain", "--gpu-mode", "simulated", "--mount", mount)
    gpuprov("create-node", NODE, *wanted)
    try:
        start = ("systemd-run", "--quiet", "--unit=web", "--setenv=NUMBA_ENABLE_CUDASIM", "python3", "/srv/web/app.py")
        gpuprov.in_node(NODE, *start)
        yield NODE
    finally:
        gpuprov("rm", NODE)


def get(address: str) -> tuple[str, bytes]:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.headers["Content-Type"], answer.read()


def refuses(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def test_the_host_serves_what_the_node_computes(gpuprov: Gpuprov, app: str) -> None:
    port = free_port()
    exposed = gpuprov("expose", app, "8080", "--port", str(port))
    assert exposed.stdout == f"port {port} of the host (127.0.0.1 only) is forwarded to {app}:8080\n"
    again = gpuprov("expose", app, "8080", "--port", str(port), "--listen", "127.0.0.1")
    assert again.stdout == "unchanged\n"

    address = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 20
    while True:
        try:
            kind, body = get(f"{address}/")
            break
        except (OSError, urllib.error.URLError):  # the app is still starting
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert kind == "application/json"
    document = json.loads(body)
    assert (document["passed"], document["simulated"]) == (True, True)
    assert [result["kernel"] for result in document["results"]] == ["matmul"]
    kind, body = get(f"{address}/index.html")
    assert kind.startswith("text/html")
    assert b"SIMULATED" in body

    clash = gpuprov("expose", "e000", "80", "--port", str(port), expect=2)
    assert f"lxd forwards it to {app}" in clash.stderr
    gpuprov("unexpose", app, str(port))
    assert refuses(port)
    assert gpuprov("unexpose", app, str(port)).stdout == "unchanged\n"


def test_a_port_that_the_host_uses_is_an_error_that_changes_nothing(gpuprov: Gpuprov, app: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for listen in ((), ("--listen", "0.0.0.0")):
            refused = gpuprov("expose", app, "8080", "--port", port, *listen, expect=2).stderr
            assert f"port {port} of the host is in use\nevidence: " in refused
            assert f"(process {os.getpid()}) listens on port {port} of 127.0.0.1\nfix: " in refused
    assert gpuprov.json("show", app)["node"]["exposed"] == []
