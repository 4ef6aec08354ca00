"""The workers of a node, one for each GPU that it leases. Run as `python3 -m gpuwork.crew`.

A worker that ends is started again. Each is on a leash: it ends with this process, also when that is killed.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from gpuwork.gpu_list import GPUS, read_gpus
from gpuwork.program import python_argv
from gpuwork.signals import on_signals

LOGS: Final = Path("/shared/logs")
OPTIONS: Final = ("--project", "/shared/app", "--app", "app")
PROGRAM: Final = (*python_argv(), "-m", "gpuwork.worker")
SHORTEST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 10.0
_LOOK_S: Final = 0.5


def main(arguments: list[str]) -> int:
    """Run the program on `arguments` (without its name) until a signal ends it; return its exit code."""
    asked = _parse(arguments)
    stop = threading.Event()
    with on_signals(stop.set):
        gpus = _wait_for_gpus(asked.gpus, stop)
        logs = asked.logs / platform.node()
        members = []
        for number, (gpu, words) in enumerate(gpus.items()):
            options = [f"--{word}" for word in words]  # such as --scrub
            log = f"{logs}/worker-{number}.log"
            argv = [*PROGRAM, "--gpu", gpu, "--log", log, "--leashed", *options, *asked.options]
            members.append(CrewMember(gpu, argv))
        while not stop.is_set():
            for member in members:
                member.look(time.monotonic())
            stop.wait(_LOOK_S)
        end_all(members)
    return 0


class CrewMember:
    """One worker, again and again."""

    def __init__(self, gpu: str, argv: list[str]) -> None:
        """Keep its GPU, which is told, and its command; nothing is started yet."""
        self._gpu = gpu
        self._argv = argv
        self._begun = self._begin_at = 0.0
        self._pause_s = SHORTEST_PAUSE_S
        self.process: subprocess.Popen[bytes] | None = None

    def look(self, now: float) -> None:
        """Start it if it is time to; once it has ended, decide when that is. `now` is time.monotonic()'s."""
        if self.process is None:
            if now >= self._begin_at:
                self._begun = now
                self.process = subprocess.Popen(  # noqa: S603  (of this package)
                    self._argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
                )
        elif self.process.poll() is not None:
            was_short = now - self._begun < LONGEST_PAUSE_S
            pause_s = self._pause_s if was_short else SHORTEST_PAUSE_S
            _say(f"a worker ended with status {self.process.returncode}; again in {pause_s:g} s: {self._gpu}")
            self._begin_at = now + pause_s
            self._pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
            self._let_go()
            self.process = None

    def end(self) -> None:
        """Tell it to end."""
        if self.process is not None:
            self.process.terminate()

    def wait(self) -> None:
        """Until it has ended."""
        if self.process is not None:
            self.process.wait()
            self._let_go()

    def _let_go(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()


def end_all(members: list[CrewMember]) -> None:
    """Tell all to end, then wait for all; a run needs 20 s at most for that."""
    for member in members:
        member.end()
    for member in members:
        member.wait()


def _wait_for_gpus(file: Path, stop: threading.Event) -> dict[str, tuple[str, ...]]:
    gpus = read_gpus(file)
    if not gpus:
        _say(f"this node has no GPU in {file}: there is nothing to do until it has one")
    while not gpus and not stop.wait(_LOOK_S):
        gpus = read_gpus(file)
    return gpus


def _say(words: str) -> None:
    sys.stderr.write(f"gpuwork.crew: {words}\n")
    sys.stderr.flush()


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m gpuwork.crew", description="A worker for each GPU of this node.")
    parser.add_argument(
        "--gpus", type=Path, default=GPUS, metavar="FILE", help=f"with the UUID of a GPU in each line; default {GPUS}"
    )
    parser.add_argument(
        "--logs", type=Path, default=LOGS, metavar="FOLDER", help=f"for NODE/worker-N.log; default {LOGS}"
    )
    parser.add_argument(
        "options", nargs="*", default=OPTIONS, help=f"of each worker, after --; default {' '.join(OPTIONS)}"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
