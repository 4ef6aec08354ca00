"""A web app for a GPU node: each GET / runs a smoke kernel on the node's GPU and answers with its proof, as JSON.

Standard library only. Usage: python3 app.py [PORT]
"""

# ruff: noqa: INP001 - a script, not part of a package
from __future__ import annotations

import subprocess
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

PORT = 8080
BUDGET_S = 120
KERNEL = (sys.executable, "-m", "smoke_kernels", "matmul", "--quick", "--json")
PAGE = b"""<!doctype html>
<title>GPU node</title>
<p>Multiplying matrices...</p>
<pre></pre>
<script>
fetch("/").then(answer => answer.json()).then(proof => {
  document.querySelector("p").textContent =
    (proof.passed ? "The GPU is right" : "The GPU is WRONG") + (proof.simulated ? " (SIMULATED)" : "");
  document.querySelector("pre").textContent = JSON.stringify(proof, null, 2);
});
</script>
"""
one_at_a_time = Lock()


def run_kernel() -> tuple[HTTPStatus, bytes]:
    """Multiply matrices on the GPU; the kernel's own document says whether the result is right."""
    with one_at_a_time:
        finished = subprocess.run(KERNEL, capture_output=True, timeout=BUDGET_S, check=False)  # noqa: S603 - fixed
    status = HTTPStatus.OK if finished.returncode == 0 else HTTPStatus.INTERNAL_SERVER_ERROR
    return status, finished.stdout or finished.stderr


class Handler(BaseHTTPRequestHandler):
    """Answers `/` with JSON and `/index.html` with a page that asks for it."""

    def do_GET(self) -> None:
        """Serve one request."""
        if self.path == "/":
            status, body = run_kernel()
            self.answer(status, "application/json", body)
        elif self.path == "/index.html":
            self.answer(HTTPStatus.OK, "text/html; charset=utf-8", PAGE)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        """Send one whole response."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(sys.argv[1]) if sys.argv[1:] else PORT), Handler).serve_forever()
