"""Root's part of scrubbing in nodes of workers: who had each GPU last, and its memory overwritten for anybody else.

Run as `python3 -m gpuwork.scrubber`. A worker asks it before a run has the GPU, by a socket that the account of jobs
can open; the processes of jobs are refused. Who had a GPU is in a folder of root's until the node starts again, and
where nobody knows, memory is overwritten. A GPU where that fails has a file that says why, and is tried again.
"""

from __future__ import annotations

import grp
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Final

from gpuwork.gpu_list import GPUS, read_gpus
from gpuwork.jobs.leftovers import is_of_run
from gpuwork.untrusted_files import read_limited
from gpuwork.where import SIMULATOR_VARIABLE

LAST: Final = Path("/run/gpuprov-scrubbed")
FOLDER: Final = Path("/run/gpuwork-scrub")
SOCKET: Final = "socket"
OK: Final = "ok"
REFUSED: Final = "a process of a job may not ask"
MOST_BYTES: Final = 1000  # of a question, and of an answer
PROGRAM: Final = (sys.executable, "-I", "-m", "smoke_kernels.scrub")
ACCOUNT: Final = "work"
_ENVIRONMENT: Final = Path("/etc/gpuprov/environment")
_REQUEST: Final = re.compile(r"((?:GPU|MIG)-[0-9A-Za-z/-]{4,80}) ([A-Za-z0-9_.@$-]{0,64})")
_CREDENTIALS: Final = struct.Struct("iII")  # process, user and group of the peer
_STARTED: Final = "started"
_LIMIT_S: Final = 900.0
_AGAIN_S: Final = 30.0
_ASK_S: Final = 5.0
_ASK_RUN_S: Final = 0.5  # jobs could keep workers waiting
_AT_ONCE: Final = 32
_WORDS: Final = 200


class Scrubber:
    """The GPUs of this node."""

    def __init__(self, *, gpus: Path = GPUS, last: Path = LAST, folder: Path = FOLDER) -> None:
        """Keep the list of GPUs, the folder that says who had each, and the one that says what is wrong with them."""
        self._gpus = gpus
        self._last = last
        self._folder = folder
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        last.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o755, exist_ok=True)
        if self._read(last / _STARTED) != _started():  # a copy of a disk, or one of a while ago: others had the GPUs
            for file in last.iterdir():
                file.unlink()
            _write(last / _STARTED, _started())

    def prepare(self, gpu: str, owner: str) -> str:
        """Why somebody may not have a GPU, in a line; empty once they may, its memory overwritten if need be.

        Args:
            gpu: Its UUID.
            owner: Who is to have it; empty where nobody knows.
        """
        if gpu not in read_gpus(self._gpus):
            return f"{gpu} is none of this node's"
        with self._locks[gpu]:
            fault = self._fault(gpu)
            if fault or (owner and self._read(self._last / file_name(gpu)) == owner):
                return fault
            why = self._scrub(gpu)
            if owner and not why:
                _write(self._last / file_name(gpu), owner)
            return why

    def try_again(self) -> None:
        """Overwrite the memory of each GPU where that failed; one where it succeeds may be used."""
        for gpu in read_gpus(self._gpus):
            with self._locks[gpu]:
                if self._fault(gpu):
                    self._scrub(gpu)

    def answer(self, question: str) -> str:
        """What a worker is told: `ok`, or why it may not use its GPU."""
        match = _REQUEST.fullmatch(question)
        try:
            return (self.prepare(match[1], match[2]) if match else "the question is none") or OK
        except OSError as error:
            return f"who had the GPU cannot be kept: {error.strerror}"

    def _fault(self, gpu: str) -> str:
        return self._read(self._folder / file_name(gpu))

    def _read(self, file: Path) -> str:
        return (read_limited(file, limit=MOST_BYTES) or b"").decode(errors="replace").strip()

    def _scrub(self, gpu: str) -> str:
        """Why that failed; a GPU of which half is overwritten is nobody's."""
        (self._last / file_name(gpu)).unlink(missing_ok=True)
        before, fault = self._fault(gpu), _overwrite(gpu)
        if not fault:
            (self._folder / file_name(gpu)).unlink(missing_ok=True)
        elif fault != before:
            _write(self._folder / file_name(gpu), fault)
        if fault != before:
            _say(fault or f"{gpu} was scrubbed, and may be used")
        return fault


def file_name(gpu: str) -> str:
    """Of the files about a GPU."""
    return gpu.replace("/", "_")


def _started() -> str:
    """What differs whenever the node has started again: the machine's boot, and when the first process began."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {Path('/proc/1/stat').read_text().rpartition(')')[2].split()[19]}"


def _overwrite(gpu: str) -> str:
    """Why the memory of a GPU was not overwritten; empty where it was."""
    environment = {name: value for name, value in os.environ.items() if name != SIMULATOR_VARIABLE}
    told = (read_limited(_ENVIRONMENT) or b"").decode(errors="replace").splitlines()
    pairs = (line.partition("=") for line in told)
    simulated = {name: value for name, _, value in pairs if name == SIMULATOR_VARIABLE}
    try:
        done = subprocess.run(  # noqa: S603  (of this image)
            PROGRAM,
            cwd="/",
            env={**environment, **simulated, "CUDA_VISIBLE_DEVICES": gpu},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{gpu} was not scrubbed within {_LIMIT_S:g} s"
    except OSError as error:
        return f"{gpu} was not scrubbed: {error.strerror}"
    lines = done.stdout.decode(errors="replace").strip().splitlines() or [""]
    why = re.sub(r"[^A-Za-z0-9 ._:;,/-]", "", lines[-1])[:_WORDS]
    return f"{gpu} was not scrubbed (status {done.returncode}): {why}" if done.returncode else ""


def _write(file: Path, words: str) -> None:
    part = file.with_name(f".{file.name}")
    part.write_text(f"{words}\n")
    part.replace(file)


def listen(folder: Path, group: int) -> socket.socket:
    """The socket that root and a group can open; one that a killed process left is replaced."""
    path = folder / SOCKET
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = os.umask(0o177)
    try:
        server.bind(str(path))
    finally:
        os.umask(before)
    os.chown(path, -1, group)
    path.chmod(0o660)
    server.listen(_AT_ONCE)
    return server


def serve(scrubber: Scrubber, connection: socket.socket) -> None:
    """Answer one question; a process of a job gets no answer but that."""
    with suppress(OSError), connection:
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        of_run = is_of_run(_CREDENTIALS.unpack(peer)[0])
        connection.settimeout(_ASK_RUN_S if of_run else _ASK_S)
        question = connection.recv(MOST_BYTES).decode(errors="replace")  # else the answer would be lost with it
        connection.send((REFUSED if of_run else scrubber.answer(question)).encode())


def main() -> int:
    """Answer until a signal ends this."""
    os.umask(0o022)
    scrubber = Scrubber()
    room = threading.BoundedSemaphore(_AT_ONCE)

    def serve_one(connection: socket.socket) -> None:
        try:
            serve(scrubber, connection)
        finally:
            room.release()

    def repair() -> None:
        while True:
            time.sleep(_AGAIN_S)
            with suppress(OSError):
                scrubber.try_again()

    threading.Thread(target=repair, daemon=True).start()
    with listen(FOLDER, grp.getgrnam(ACCOUNT).gr_gid) as server:
        while True:
            room.acquire()  # before the next one is taken in: a job could ask without end
            connection, _ = server.accept()
            threading.Thread(target=serve_one, args=(connection,), daemon=True).start()


def _say(words: str) -> None:
    sys.stderr.write(f"gpuwork.scrubber: {words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
