"""A cluster of two nodes to which work is handed in, and a project; what several modules of tests begin with."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place

TRAIN = """\
import os, socket, sys
import helper
print(helper.WORD, sys.argv[1:], os.getuid(), socket.gethostname())
open("result.txt", "w").write("42")
"""
TASKS = "def double(number, word='none'):\n    print('doubled', number * 2, word)\n"
# A variable of the nodes, with all that a file between here and a job could take for its own.
ODD = "GPT_ODD=a b  \"c\" $HOME #d \\ 'e' "
PROCESSES = 400  # of each node: what tests fill
QUICK = {("lxd", "slurm"), ("lxd", "worker"), ("docker", "worker")}
KILL_NODE = {"lxd": ("lxc", "stop", "--force"), "incus": ("incus", "stop", "--force"), "docker": ("docker", "kill")}


def kinds(role: str, quick: set[tuple[str, str]]) -> list[Any]:
    """Parameters for a fixture: a role on each engine, `long` but for the quick ones."""
    return [
        pytest.param((engine, role), id=f"{engine}-{role}", marks=[] if (engine, role) in quick else [pytest.mark.long])
        for engine in ("lxd", "docker", "incus")
    ]


class Desk:
    """A cluster of two nodes that share a folder, and a project."""

    def __init__(self, gpuprov: Gpuprov, place: Place, engine: str, role: str, project: Path) -> None:
        self.gpuprov, self.place, self.engine, self.role, self.project = gpuprov, place, engine, role, project
        self.folder = Path("/srv/gpuprov") / place.cluster
        self.controller = place.node(0)

    def __call__(self, *argv: str, expect: int = 0) -> Finished:
        return self.gpuprov(*self.typed(argv), expect=expect)

    def typed(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        words = len(argv[:2]) if argv[0] == "jobs" else 1
        return (*argv[:words], "--cluster", self.place.cluster, *argv[words:])

    def submit(self, *argv: str) -> str:
        return self("submit", *argv).stdout.strip()

    def begin(self, *argv: str) -> str:
        """Submit a job, and wait until it runs; Slurm says `running` before its first try has begun."""
        job = self.submit(*argv)
        Wait(what="the job to begin", timeout_s=60, fix="look at the queue").until(
            lambda: self.shown(job), lambda row: row["state"] == "running" and row["tries"] == 1
        )
        return job

    def await_state(self, job: str, state: str, *, seconds: float = 60) -> None:
        Wait(what=f"the job to be {state}", timeout_s=seconds, fix="look at the queue").until(
            lambda: self.shown(job)["state"], lambda found: found == state
        )

    def shown(self, job: str) -> dict[str, Any]:
        (found,) = self.rows(job)
        return found

    def rows(self, job: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.gpuprov.json(*self.typed(("jobs", "show", job)))["jobs"]
        return found

    def nodes(self) -> dict[str, dict[str, Any]]:
        rows = self.gpuprov.json("list")["nodes"]
        return {row["name"]: row for row in rows if row["cluster"] == self.place.cluster}

    def log(self, job: str) -> str:
        return self("jobs", "logs", job).stdout


@contextmanager
def open_desk(
    request: pytest.FixtureRequest, gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Desk]:
    """The cluster of a fixture whose parameter is an engine and a role; its folder outlives it, and goes by a purge."""
    engine, role = request.param
    request.getfixturevalue({"lxd": "lxc"}.get(engine, engine))
    project = tmp_path_factory.mktemp("project")
    (project / "train.py").write_text(TRAIN)
    (project / "helper.py").write_text("WORD = 'trained'\n")
    (project / "app").mkdir()
    (project / "app/__init__.py").touch()
    (project / "app/tasks.py").write_text(TASKS)
    spec = gpuprov.folder / f"work-{engine}-{role}.yaml"
    nodes = f"role: {role}, memory_gib: 2, processes: {PROCESSES}, environment: {json.dumps([ODD])}"
    spec.write_text(place.spec(engine=engine, nodes=nodes, share="true"))
    shutil.rmtree(f"/srv/gpuprov/{place.cluster}", ignore_errors=True)  # of a killed run
    gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
    made = Desk(gpuprov, place, engine, role, project)
    yield made
    said = gpuprov("cluster", "down", place.cluster, "--yes", "--force")
    assert str(made.folder) in said.all
    assert (made.folder / "jobs").is_dir()
    gpuprov("cluster", "down", place.cluster, "--purge", "--yes", "--engine", engine)
    assert not made.folder.exists()


def lasting(seconds: int) -> tuple[str, ...]:
    """What is typed after `submit` for a job of that many seconds that says when it is whole."""
    return ("--no-project", "--", "sh", "-c", f"sleep {seconds}; echo whole")


def lasting_until_hit() -> tuple[str, ...]:
    """What is typed after `submit` for a job that lasts until it is hit; its next try is brief and says it is whole."""
    tried = f"/shared/tried.{uuid4().hex}"
    again = f"if [ -e {tried} ]; then rm {tried}; sleep 1; echo whole; else touch {tried}; sleep 600; fi"
    return ("--no-project", "--", "sh", "-c", again)


def again_within(desk: Desk, job: str, *, seconds: float = 30) -> None:
    """A job that was hit runs again, and ends once."""
    Wait(what="the job to run again", timeout_s=seconds, fix="look at the queue").until(
        lambda: desk.shown(job), lambda shown: shown["tries"] == 2 and shown["state"] in ("running", "done")
    )
    desk("jobs", "wait", job)
    shown = desk.shown(job)
    assert (shown["state"], shown["exit_status"], shown["tries"]) == ("done", 0, 2), shown
    assert desk.log(job).count("whole") == 1
