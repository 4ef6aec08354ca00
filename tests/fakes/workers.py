"""The workers of fake nodes, as `python3 -m gpuwork.jobs workers` tells of them, and their folder of jobs."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from gpuprov.drivers.base import ExecResult
from gpuprov.roles.work.queue_page import PROGRAM
from gpuprov.roles.work.work_place import FOLDER, controller_argv
from gpuprov.roles.worker.facts import BROKER, DEFINITIONS, FLOWER, GPUS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.engine import Command, FakeEngine, FakeNode

_PROGRAM = tuple(controller_argv())
_SHELL = ("runuser", "-u", "work", "--", "sh", "-c")


class WorkersInNodes:
    """Answers of the program for jobs in nodes that have the files of workers; others know no such program.

    Attributes:
        broken: Nodes whose workers do not answer.
        jobs: What is in the folder of jobs.
        folder: What nodes have as the folder of jobs, for lines of a shell, which are really run.
    """

    def __init__(self, engine: FakeEngine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.broken: set[str] = set()
        self.jobs: list[dict[str, object]] = []

    def knows(self, command: Command) -> bool:
        """Whether it is a question for one of these programs, in a node of this kind."""
        begins = (command.argv[: len(words)] == words for words in (_PROGRAM, PROGRAM, _SHELL))
        return any(begins) and BROKER in command.node.files

    def __call__(self, command: Command) -> ExecResult:
        """What the program prints; the page of the queue says nothing to one who says nothing."""
        if command.argv[: len(PROGRAM)] == PROGRAM:
            shown = FLOWER in command.node.files and command.node.name not in self.broken
            return ExecResult(exit_code=0 if shown else 4, stdout="", stderr="" if shown else "127.0.0.1:5555: refused")
        if command.argv[: len(_SHELL)] == _SHELL:
            argv = [word.replace(FOLDER, str(self.folder)) for word in command.argv[len(_SHELL) - 2 :]]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            return ExecResult(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)
        verb = "live" if "--live" in command.argv else command.argv[len(_PROGRAM)]
        told = {"workers": self._workers, "list": self._list, "live": self._list_live}[verb]()
        return ExecResult(exit_code=4 if "error" in told else 0, stdout=json.dumps(told), stderr="")

    @property
    def held(self) -> list[str]:
        """The nodes on which no run may begin."""
        return sorted(path.name for path in self.folder.glob(".held/*"))

    def _workers(self) -> dict[str, object]:
        nodes = [node for node in self.engine.nodes.values() if node.status == "running" and BROKER in node.files]
        ours = any(b"@10.0.5." in node.files[BROKER].content for node in nodes)
        if ours and not any(DEFINITIONS in node.files for node in nodes):
            error = {"what": "the broker does not answer", "evidence": "refused", "fix": "none", "exit_code": 4}
            return {"schema": "gpuprov.error/v1", "version": 1, "error": error}
        found = [_worker(node, gpu) for node in nodes if node.name not in self.broken for gpu in _gpus(node)]
        return {"schema": "gpuprov.workers/v1", "version": 1, "workers": found, "waiting": 0}

    def _list(self) -> dict[str, object]:
        return {"schema": "gpuprov.jobs/v1", "version": 1, "jobs": self.jobs, "older": 0}

    def _list_live(self) -> dict[str, object]:
        return self._list()


def _gpus(node: FakeNode) -> list[str]:
    return [line.split()[0] for line in node.files[GPUS].content.decode().splitlines()]


def _worker(node: FakeNode, gpu: str) -> dict[str, object]:
    return {"name": f"{gpu}@{node.name}", "node": node.name, "pid": 40, "gpu": gpu, "busy": False, "task_gpu": gpu}
