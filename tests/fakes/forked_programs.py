"""Runs `python3 -m MODULE ...` as a fork of a process that has imported it: many starts, and one import."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import select
import shlex
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.execution import Completed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[2]
WORK = ("gpuwork.grid.cli", "gpuwork.jobs.cli")
START = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.fakes.forked_programs import serve; serve()"
# Has a program run with its own streams, arguments and environment: client.py ADDRESS MODULE ...
CLIENT = """\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    socket.send_fds(connection, [b"."], [0, 1, 2])
    connection.sendall(json.dumps({"argv": sys.argv[2:], "env": dict(os.environ)}).encode() + b"\\n")
    code = connection.recv(1)
os._exit(code[0] if code else 137)
"""


class ForkedPrograms:
    """Forks as long as this process lives, and `finish` was not called.

    Args:
        python: The interpreter.
        folder: For its socket.
        imported: What it imports once.
        env: What it begins with, besides PATH; a program has another environment.
    """

    def __init__(
        self, python: str, folder: Path, *, imported: Sequence[str] = WORK, env: Mapping[str, str] | None = None
    ) -> None:
        self.python = python
        self._address = str(folder / "programs")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._address)
            listener.listen()
            self._process = subprocess.Popen(
                [python, "-c", START, str(listener.fileno()), *imported], stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()], cwd=ROOT, env={"PATH": os.defpath, **(env or {})},
            )  # fmt: skip

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str], stdin: bytes, limit_s: float
    ) -> subprocess.CompletedProcess[bytes]:
        """What a module (`argv[0]`) does with the rest as its arguments, in the root of this checkout."""
        with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            told.write(stdin)
            told.seek(0)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(limit_s)
                connection.connect(self._address)
                socket.send_fds(connection, [b"."], [file.fileno() for file in (told, out, err)])
                connection.sendall(json.dumps({"argv": [*argv], "env": {**env}}).encode() + b"\n")
                code = connection.recv(1)
            assert code, f"{argv} was killed"
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess([*argv], code[0], out.read(), err.read())

    def command(self, *argv: str) -> str:
        """A shell command that does the same as `python3 -m MODULE ...`, in a fork."""
        return shlex.join([self.python, "-IS", "-c", CLIENT, self._address, *argv])

    def check_here(
        self, argv: Sequence[str], *, timeout_s: float, environment: Mapping[str, str], stdin: str, **_: object
    ) -> Completed:
        """In place of `run` in project/order_check.py, whose argv is `PYTHON [-S] -m MODULE ...`."""
        module = argv.index("-m") + 1
        env = {**os.environ, **environment}
        done = self.run(argv[module:], env=env, stdin=stdin.encode(), limit_s=timeout_s)
        return Completed(
            argv=tuple(argv),
            exit_code=done.returncode,
            stdout=done.stdout.decode(),
            stderr=done.stderr.decode(),
            seconds=0.0,
        )

    def finish(self) -> None:
        """End it."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def serve() -> None:
    """Fork for each that connects, until stdin ends."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    for module in sys.argv[2:]:
        importlib.import_module(module)
    while listener.fileno() in select.select([listener.fileno(), 0], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _become(connection)
        connection.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _become(connection: socket.socket) -> None:
    _, handles, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("r", encoding="utf-8") as message:
        asked: dict[str, Any] = json.loads(message.readline())
    for number, handle in enumerate(handles):
        os.dup2(handle, number)
        os.close(handle)
    os.environ.clear()
    os.environ.update(asked["env"])
    module, *arguments = asked["argv"]
    sys.argv[:] = [module, *arguments]
    code: object = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:  # noqa: BLE001  (as an interpreter does)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(bytes([code if isinstance(code, int) else 1]))
        os._exit(0)
