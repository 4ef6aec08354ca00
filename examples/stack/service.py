"""One service of the example stack, in its container: reports the GPUs that it sees, and asks others for theirs.

    GET /gpus               what this service sees: its GPUs as they are called in here, counted from 0
    GET /callmeback/PEER    asks PEER to call this service back, and answers with what PEER was told then
    GET /call/PEER          calls PEER's /gpus; what /callmeback asks of the other side

Standard library only. Usage: python3 service.py NAME PEERS, where PEERS is a folder that all services of a stack share:
each writes its address there.
"""

# ruff: noqa: INP001 - a script, not part of a package
from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BUDGET_S = 10
SMI = ("nvidia-smi", "--query-gpu=uuid,name", "--format=csv,noheader")


def find_gpus(dev: Path = Path("/dev")) -> list[dict[str, Any]]:
    """The GPUs in here, in the order in which CUDA counts them."""
    minors = sorted(
        int(path.name.removeprefix("nvidia"))
        for path in dev.glob("nvidia*")
        if path.name.removeprefix("nvidia").isdecimal()
    )
    opened = [try_to_open(dev / f"nvidia{minor}") for minor in minors]
    if minors and all(word == "ENXIO" for word in opened):  # let in, and no driver behind: gpuprov's simulated GPUs
        uuids = [f"SIMULATED-{minor % 128}" for minor in minors]  # its index on the host; the UUID is known there only
        models = ["SIMULATED"] * len(minors)
    else:
        listed = ask_smi() if minors else []
        uuids, models = [line[0] for line in listed], [line[1] for line in listed]
    return [{"index": index, "uuid": uuid, "model": models[index]} for index, uuid in enumerate(uuids)]


def try_to_open(path: Path) -> str:
    """`ok`, or what the kernel says."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "?")
    return "ok"


def ask_smi() -> list[list[str]]:
    """UUID and model of each GPU, as the driver's own tool tells them."""
    found = subprocess.run(SMI, capture_output=True, text=True, timeout=BUDGET_S, check=True)  # noqa: S603 - fixed
    return [[part.strip() for part in line.split(",")] for line in found.stdout.splitlines()]


def fetch(address: str, path: str) -> dict[str, Any]:
    """What another service answers."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=BUDGET_S) as answer:
        document: dict[str, Any] = json.load(answer)
        return document


def make_handler(name: str, peers: Path) -> type[BaseHTTPRequestHandler]:
    """The pages of service `name`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer one request."""
            page, _, peer = self.path.lstrip("/").partition("/")
            try:
                document = self.answer(page, peer)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                self.send(HTTPStatus.BAD_GATEWAY, {"name": name, "error": str(error)})
            else:
                self.send(HTTPStatus.OK if document else HTTPStatus.NOT_FOUND, document or {"name": name})

        def answer(self, page: str, peer: str) -> dict[str, Any]:
            if page == "gpus":
                return {"name": name, "gpus": find_gpus()}
            if page in ("call", "callmeback") and peer.replace("-", "").isalnum():
                address = (peers / peer).read_text()
                said = fetch(address, "/gpus" if page == "call" else f"/call/{name}")
                return {"name": name, "asked": peer, "answer": said}
            return {}

        def send(self, status: HTTPStatus, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing; what is asked is nobody else's business."""

    return Handler


def main() -> None:
    """Serve until SIGTERM."""
    name, peers = sys.argv[1], Path(sys.argv[2])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = ThreadingHTTPServer(("", 0), make_handler(name, peers))
    address = f"{socket.gethostbyname(socket.gethostname())}:{server.server_address[1]}"
    unfinished = peers / f".{name}"
    unfinished.write_text(address)
    unfinished.replace(peers / name)
    sys.stdout.write(f"{name} serves http://{address}/gpus\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
