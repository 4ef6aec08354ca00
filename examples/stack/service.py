"""One service of the example stack: who it is, which GPUs it sees, and calls to its neighbours.

    GET /             a page: this service, and the GPUs of all services of its stack
    GET /cntname      its name
    GET /task         what it does: trainer, policy or simulation
    GET /gpus         the variables that begin with NVIDIA or HOUDINI, then what `nvidia-smi -L` prints
    POST /callmeback  {"proto": "http", "host": "policy-0", "port": 9991, "path": "/gpus"}: what that address answers

Standard library only. Variables: TASK, PORT, and PEERS, the `name:port` of each service, with spaces between them.
"""

# ruff: noqa: INP001 - a script, not part of a package
from __future__ import annotations

import html
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BUDGET_S = 10
MOST_BYTES = 65536
SMI = ("nvidia-smi", "-L")
SHOWN = ("HOUDINI", "NVIDIA")
TEXT = "text/plain; charset=utf-8"
PAGE = "text/html; charset=utf-8"
STYLE = "body{font:16px sans-serif;margin:2em}table{border-collapse:collapse}td,th{padding:.3em 1em;text-align:left}"


def list_gpus() -> str:
    """One GPU a line, as the driver's tool names them; a sentence where there is none."""
    try:
        done = subprocess.run(SMI, capture_output=True, text=True, timeout=BUDGET_S, check=False)  # noqa: S603 - fixed
    except FileNotFoundError:
        return "no GPU: nvidia-smi is not here\n"
    return done.stdout if done.returncode == 0 else f"no GPU: {done.stdout or done.stderr}"


def tell_gpus() -> str:
    """What this service was given, and what it sees."""
    lines = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(SHOWN)]
    return "".join(f"{line}\n" for line in lines) + list_gpus()


def fetch(address: str) -> str:
    """What an address answers."""
    with urllib.request.urlopen(address, timeout=BUDGET_S) as answer:  # noqa: S310 - http or https, see `call_back`
        return str(answer.read(MOST_BYTES).decode(errors="replace"))


def call_back(body: bytes) -> str:
    """What the address in a request answers; ValueError where the request is not understood."""
    wanted = json.loads(body)
    if not isinstance(wanted, dict) or wanted.get("proto") not in ("http", "https"):
        message = 'the body is {"proto": "http", "host": NAME, "port": NUMBER, "path": "/gpus"}'
        raise ValueError(message)
    host, port, path = str(wanted.get("host")), int(wanted.get("port", 0)), str(wanted.get("path", "/"))
    return fetch(f"{wanted['proto']}://{host}:{port}/{path.lstrip('/')}")


def render_page(name: str, peers: list[str]) -> str:
    """Who holds what, asked now."""
    rows = []
    for peer in peers:
        try:
            told = fetch(f"http://{peer}/gpus")
        except (OSError, ValueError) as error:
            told = f"does not answer: {error}"
        gpus = "<br>".join(html.escape(line) for line in told.splitlines() if not line.startswith(SHOWN))
        rows.append(f"<tr><td>{html.escape(peer.partition(':')[0])}<td>{gpus}")
    title = f"{html.escape(name)} of the example stack"
    table = "<table><tr><th>Service<th>GPUs" + "".join(rows) + "</table>"
    return f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{STYLE}</style><h1>{title}</h1>{table}\n"


class Service(BaseHTTPRequestHandler):
    """The pages of this service."""

    def do_GET(self) -> None:
        """Answer a question."""
        name, peers = socket.gethostname(), os.environ.get("PEERS", "").split()
        if self.path == "/":
            self.send(HTTPStatus.OK, render_page(name, peers), PAGE)
        elif self.path == "/cntname":
            self.send(HTTPStatus.OK, f"{name}\n")
        elif self.path == "/task":
            self.send(HTTPStatus.OK, f"{os.environ.get('TASK', '')}\n")
        elif self.path == "/gpus":
            self.send(HTTPStatus.OK, tell_gpus())
        else:
            self.send(HTTPStatus.NOT_FOUND, "pages: / /cntname /task /gpus, and POST /callmeback\n")

    def do_POST(self) -> None:
        """Call another service."""
        length = self.headers.get("Content-Length", "")
        if self.path != "/callmeback" or not length.isdecimal() or int(length) > MOST_BYTES:
            self.send(HTTPStatus.BAD_REQUEST, "POST /callmeback takes a JSON body of at most 64 KiB\n")
            return
        try:
            self.send(HTTPStatus.OK, call_back(self.rfile.read(int(length))))
        except OSError as error:
            self.send(HTTPStatus.BAD_GATEWAY, f"{error}\n")
        except (TypeError, ValueError) as error:
            self.send(HTTPStatus.BAD_REQUEST, f"{error}\n")

    def send(self, status: HTTPStatus, text: str, kind: str = TEXT) -> None:
        """Send one answer."""
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


def main() -> None:
    """Serve until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ThreadingHTTPServer(("", int(os.environ["PORT"])), Service).serve_forever()


if __name__ == "__main__":
    main()
