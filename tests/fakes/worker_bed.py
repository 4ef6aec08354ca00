"""Real Celery workers as real processes, with a shared folder, and a broker that is a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gpuwork.broker import make_app
from gpuwork.broker_file import read_broker
from gpuwork.jobs.leftovers import WORKER_VARIABLE, end_leftovers
from tests.fakes.brokerfolder import register, url_of

if TYPE_CHECKING:
    from celery import Celery

ROOT = Path(__file__).parents[2]
PASSWORD = "s3cret-of-the-broker"
READY_S = 60.0


class WorkerBed:
    """Workers by the name of their GPU."""

    def __init__(self, folder: Path) -> None:
        register()
        self.shared, self.broker = folder / "shared", folder / "broker"
        self.jobs, self.logs = self.shared / "jobs", self.shared / "logs"
        for path in (self.shared, self.broker):
            path.mkdir()
        self.url_file = folder / "url"
        self.url_file.write_text(url_of(self.broker, user=f"gpuwork:{PASSWORD}@") + "\n")
        self.url_file.chmod(0o600)
        self.started: list[tuple[str, subprocess.Popen[bytes]]] = []

    def app(self) -> Celery:
        """An app that talks to these workers."""
        return make_app(read_broker(self.url_file))

    def log(self, gpu: str = "GPU-0001") -> str:
        """What the worker of a GPU said."""
        path = self.logs / f"{gpu}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self, gpu: str = "GPU-0001", *options: str, wait: bool = True) -> subprocess.Popen[bytes]:
        """A worker, ready unless it is not waited for."""
        before = self.log(gpu).count(" ready.")
        argv = [sys.executable, "-W", "ignore", "-m", "tests.fakes.worker_program", "gpuwork.worker.cli", "--gpu", gpu]
        argv += ["--log", str(self.logs / f"{gpu}.log"), "--broker", str(self.url_file), "--folder", str(self.jobs)]
        with (self.broker.parent / f"{gpu}.out").open("ab") as out:
            process = subprocess.Popen(
                [*argv, *options], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL, stdout=out,
                stderr=out,
            )  # fmt: skip
        self.started.append((gpu, process))
        until = time.monotonic() + READY_S
        while wait and self.log(gpu).count(" ready.") <= before:
            assert process.poll() is None, self.said(gpu)
            assert time.monotonic() < until, self.said(gpu)
            time.sleep(0.05)
        return process

    def said(self, gpu: str = "GPU-0001") -> str:
        """All that a worker said, also beside its log."""
        return (self.broker.parent / f"{gpu}.out").read_text(errors="replace") + self.log(gpu)

    def lose_messages(self) -> int:
        """The broker forgets what waits; how many messages."""
        paths = [*self.broker.glob("queues/*.gpuwork.msg")]
        for path in paths:
            path.unlink()
        return len(paths)

    def finish(self) -> None:
        """Nothing lives on after a test."""
        for gpu, process in self.started:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
            end_leftovers({WORKER_VARIABLE: f"{self.jobs}/.workers/{gpu}@{os.uname().nodename}"})
