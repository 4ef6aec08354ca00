"""The program for jobs, as a fake node runs it: really, on a folder of this machine, with a stand-in for Slurm."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.drivers.base import ExecResult
from gpuprov.drivers.node_trees import ITEM
from gpuprov.fleet.questions.hardware import PROGRAM as HARDWARE
from gpuprov.roles.work.work_place import (
    FOLDER,
    HOME,
    PROJECTS,
    anneal_argv,
    controller_argv,
    cuda_program_argv,
    grid_argv,
    text_argv,
)
from gpuprov.shapes.node import Mount
from gpuprov.spec.people import home_of
from gpuprov.spec.shared_folder import ACCOUNT, ANNEALS, GRIDS, PROGRAMS, SHARED
from gpuwork.freeze import remove_copy
from tests.fakes.driver import FakeDriver
from tests.fakes.slurm_commands import SlurmCommands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest

    from tests.fakes.engine import Command
    from tests.fakes.forked_programs import ForkedPrograms
    from tests.fakes.world import World

ROOT = Path(__file__).parents[2]
PROGRAM = tuple(controller_argv())
GRID = tuple(grid_argv())
ANNEAL = tuple(anneal_argv())
CUDA = tuple(cuda_program_argv())
SUBMIT_GRID = tuple(text_argv((ROOT / "gpuwork/submit_grid.py").read_text()))
# What is asked of a node, and with what it begins behind `python3 -m`
STARTS: dict[tuple[str, ...], tuple[str, ...]] = {
    PROGRAM: ("gpuwork.jobs", "--folder", FOLDER),
    GRID: ("gpuwork.grid",),
    SUBMIT_GRID: ("gpuwork.submit_grid",),
    ANNEAL: ("gpuwork.anneal",),
    CUDA: ("gpuwork.programs", "--store", PROGRAMS),
    HARDWARE: ("gpuwork.hardware",),
}


class JobsInNodes:
    """Answers what is asked of the program in the controller's node; everything else is answered as before.

    Attributes:
        folder: What nodes have at /shared.
        asked: How the program was called, without what is the same each time.
        persons: As whom it ran, where that was a person.
        say: If set, answers in place of the program.
    """

    def __init__(self, world: World, folder: Path, programs: ForkedPrograms) -> None:
        self._programs = programs
        self.folder = folder / "shared"
        self.folder.mkdir()
        self.slurm = SlurmCommands(folder / "slurm")
        self.asked: list[tuple[str, ...]] = []
        self.persons: list[str] = []
        self.trees = folder / "trees"
        self.say: Callable[[Command], ExecResult] | None = None
        self._world = world
        self._answer = world.engine.answer
        world.engine.answer = self

    def share(self) -> None:
        """Mount the folder in every node that there is."""
        for node in self._world.engine.nodes.values():
            node.mounts += (Mount(source=str(self.folder), target=SHARED, read_only=False),)

    def __call__(self, command: Command) -> ExecResult:
        if command.argv[:2] == ("sh", "-c") and any(f"'{PROJECTS}*'" in word for word in command.argv):
            behind = command.argv[7:]
            result = self(replace(command, argv=behind)) if behind else ExecResult(exit_code=0, stdout="", stderr="")
            shutil.rmtree(self._place(command.argv[4]), ignore_errors=True)
            return result
        person, argv = _without_person(command.argv)
        program = next((words for words in STARTS if argv[: len(words)] == words), None)
        if program is None:
            return self._answer(command)
        arguments = command.argv[len(program) :]
        self.asked.append(arguments)
        if self.say is not None:
            return self.say(command)
        starts = STARTS[program]
        if person:
            self.persons.append(person)
            home = Path(home_of(person, shared=True))
            self.folder.joinpath("home", person).mkdir(parents=True, exist_ok=True)
            starts = tuple(word.replace(f"{SHARED}/", f"{home}/") for word in starts)
        return self._run(replace(command, argv=(*starts, *arguments)))

    def _run(self, command: Command) -> ExecResult:
        path = f"{self.slurm.bin}:{os.environ['PATH']}"
        env = {"PATH": path, "HOME": str(self.folder), **command.environment}
        argv = [*map(self._as_here, command.argv)]
        stdin = self._as_here(command.stdin.decode()).encode()
        assert command.timeout_s
        done = self._programs.run(argv, env=env, stdin=stdin, limit_s=command.timeout_s)
        said = done.stdout.decode()
        for there, here in self._places.items():
            said = said.replace(here, there)
        return ExecResult(exit_code=done.returncode, stdout=said, stderr=done.stderr.decode())

    @property
    def _places(self) -> dict[str, str]:
        """Paths in nodes, and what they are on this machine."""
        shared = {FOLDER: "jobs", GRIDS: "grids", ANNEALS: "anneal", PROGRAMS: "programs"}
        shared[f"{SHARED}/home"] = "home"
        return {**{there: str(self.folder / here) for there, here in shared.items()}, PROJECTS: f"{self.trees}/"}

    def _as_here(self, text: str) -> str:
        for there, here in self._places.items():
            text = text.replace(there, here)
        return text

    def give_python(self, *settings: str) -> None:
        """Have jobs find `gpuwork` with the `python3` of their PATH, as those of nodes do, and these settings."""
        program = self.slurm.programs / "python3"
        program.write_text(
            f'#!/bin/sh\nexport PYTHONPATH={ROOT} {" ".join(settings)}\nexec {self._programs.python} "$@"\n'
        )
        program.chmod(0o755)

    def read_tree(self, path: str) -> bytes:
        """A tar of a folder, as a node's tar makes it."""
        argv = ["tar", "--create", "--file=-", "--format=gnu", f"--directory={self._as_here(path)}", "."]
        return subprocess.run(argv, check=True, capture_output=True).stdout

    def take_tree(self, path: str, tar: Iterable[bytes]) -> None:
        """Unpack a tar as root's tar in a node does."""
        place = self._place(path)
        content = b"".join(tar)
        with tarfile.open(fileobj=io.BytesIO(content)) as members:
            for member in members:
                if member.name.partition("/")[0] == ITEM:
                    member.name = place.name + member.name.removeprefix(ITEM)
                    members.extract(member, place.parent, set_attrs=True, filter="fully_trusted")

    def _place(self, path: str) -> Path:
        assert path.startswith(PROJECTS)
        return self.trees / path.removeprefix(PROJECTS)

    def held(self) -> list[str]:
        """The projects that are in the node now."""
        return [path.name for path in self.trees.iterdir()] if self.trees.exists() else []

    def orders(self) -> list[dict[str, object]]:
        """What was submitted."""
        found = sorted(self.folder.glob("jobs/[0-9]*/order.json"))
        return [json.loads(path.read_text()) for path in found]

    def lose(self, job: str) -> None:
        """Have Slurm forget a submission."""
        told = json.loads((self.folder / "jobs" / job / "submitted.json").read_text())
        for chunk in told["chunks"]:
            for path in self.slurm.tasks.glob(f"{chunk['slurm']}_*"):
                path.unlink()

    def finish(self) -> None:
        """Nothing lives on after a test."""
        self.slurm.finish()
        for copy in (
            *self.folder.glob("jobs/.code/*"),
            *self.folder.glob("grids/*/runs/.code/*"),
            *self.folder.glob("home/*/grids/*/runs/.code/*"),
        ):
            remove_copy(copy)


def _without_person(argv: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """As whom a program is to run, empty for the account of jobs; and the command for that account."""
    if argv[:2] != ("runuser", "-u") or argv[2] == ACCOUNT:
        return "", argv
    home = home_of(argv[2], shared=True)
    assert argv[5] == f"HOME={home}"
    words = (word.replace(f"{home}/", f"{SHARED}/") for word in argv[6:])
    return argv[2], ("runuser", "-u", ACCOUNT, *argv[3:5], f"HOME={HOME}", *words)


def give_jobs(world: World, folder: Path, monkeypatch: pytest.MonkeyPatch, programs: ForkedPrograms) -> JobsInNodes:
    """Have the nodes of a world run the program, and take projects; what is checked on the host is forked as well."""
    jobs = JobsInNodes(world, folder, programs)
    before, before_read = FakeDriver.write_tree, FakeDriver.read_tree

    def write_tree(driver: FakeDriver, name: str, path: str, tar: Iterable[bytes]) -> None:
        if path.startswith(PROJECTS):
            driver.reach("write_tree", name)
            jobs.take_tree(path, tar)
        else:
            before(driver, name, path, tar)

    def read_tree(driver: FakeDriver, name: str, path: str, take: Callable[[bytes], object]) -> str:
        if path.startswith((FOLDER, GRIDS, ANNEALS, f"{SHARED}/home")) and path not in world.engine.tars:
            driver.reach("read_tree", name)
            take(jobs.read_tree(path))
            return ""
        return before_read(driver, name, path, take)

    monkeypatch.setattr("gpuprov.project.order_check.run", programs.check_here)
    monkeypatch.setattr(FakeDriver, "write_tree", write_tree)
    monkeypatch.setattr(FakeDriver, "read_tree", read_tree)
    return jobs
