"""Jobs on a real Slurm: a folder that all nodes share, `submit`, and `jobs`."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
ACCOUNT = 59400


class Desk:
    """A cluster of two nodes that share a folder, and a project."""

    def __init__(self, gpuprov: Gpuprov, place: Place, engine: str, project: Path) -> None:
        self.gpuprov, self.place, self.engine, self.project = gpuprov, place, engine, project
        self.folder = Path("/srv/gpuprov") / place.cluster
        self.controller = place.node(0)

    def __call__(self, *argv: str, expect: int = 0) -> Finished:
        return self.gpuprov(*self._typed(argv), expect=expect)

    def _typed(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        words = len(argv[:2]) if argv[0] == "jobs" else 1
        return (*argv[:words], "--cluster", self.place.cluster, *argv[words:])

    def submit(self, *argv: str) -> str:
        return self("submit", *argv).stdout.strip()

    def shown(self, job: str) -> dict[str, Any]:
        (found,) = self.gpuprov.json(*self._typed(("jobs", "show", job)))["jobs"]
        assert isinstance(found, dict)
        return found


@pytest.fixture(scope="module", params=["lxd", "docker", "incus"])
def desk(
    request: pytest.FixtureRequest, gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Desk]:
    engine: str = request.param
    request.getfixturevalue({"lxd": "lxc"}.get(engine, engine))
    project = tmp_path_factory.mktemp("project")
    (project / "train.py").write_text(TRAIN)
    (project / "helper.py").write_text("WORD = 'trained'\n")
    (project / "app").mkdir()
    (project / "app/__init__.py").touch()
    (project / "app/tasks.py").write_text(TASKS)
    spec = gpuprov.folder / f"work-{engine}.yaml"
    spec.write_text(place.spec(engine=engine) + "share: true\n")
    shutil.rmtree(f"/srv/gpuprov/{place.cluster}", ignore_errors=True)  # of a killed run
    gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
    made = Desk(gpuprov, place, engine, project)
    yield made
    said = gpuprov("cluster", "down", place.cluster, "--force")
    assert str(made.folder) in said.all
    assert (made.folder / "jobs").is_dir()
    gpuprov("cluster", "down", place.cluster, "--purge", "--yes", "--engine", engine)
    assert not made.folder.exists()


def test_what_one_node_writes_the_others_read_and_others_of_the_host_do_not(desk: Desk) -> None:
    owner = ("runuser", "-u", "work", "--")
    desk.gpuprov.in_node(desk.place.node(0), *owner, "sh", "-c", "umask 077; echo 42 >/shared/answer")
    assert desk.gpuprov.in_node(desk.place.node(1), *owner, "cat", "/shared/answer").strip() == "42"
    assert (desk.folder / "answer").read_text() == "42\n"
    assert desk.gpuprov.in_node(desk.place.node(1), "stat", "-c", "%u", "/shared/answer").strip() == str(ACCOUNT)
    assert stat.S_IMODE(desk.folder.parent.stat().st_mode) == stat.S_IRWXU
    (desk.folder / "answer").unlink()


def test_a_command_of_a_project_runs_as_the_account_and_is_told(desk: Desk) -> None:
    job = desk.submit("--project", str(desk.project), "--", "python3", "train.py", "--lr", "0.1")
    desk("jobs", "wait", job)
    shown = desk.shown(job)
    assert (shown["state"], shown["exit_status"], shown["tries"]) == ("done", 0, 1), shown
    assert shown["node"] in (desk.place.node(0), desk.place.node(1))
    assert f"trained ['--lr', '0.1'] {ACCOUNT} {shown['node']}" in desk("jobs", "logs", job).stdout
    assert (desk.folder / "jobs" / job / "runs/0" / "work/result.txt").read_text() == "42"
    assert desk.gpuprov.in_node(desk.controller, "ls", "/opt").strip() == ""
    assert job in desk("jobs").stdout


def test_runs_of_a_sweep_and_a_function(desk: Desk) -> None:
    sweep = desk.submit("--no-project", "--name", "sweep", "--count", "3", "--at-most", "2", "--", "echo", "run {n}")
    function = desk.submit("--project", str(desk.project), "app.tasks:double", "-a", "number=21", "-a", "word=many")
    desk("jobs", "wait", sweep, function)
    assert [desk("jobs", "logs", f"{sweep}.{number}").stdout.strip() for number in range(3)] == [
        "run 0",
        "run 1",
        "run 2",
    ]
    assert "doubled 42 many" in desk("jobs", "logs", function).stdout


def test_one_that_always_fails_has_its_tries_and_its_log(desk: Desk) -> None:
    job = desk.submit("--no-project", "--retries", "1", "--", "sh", "-c", "echo no luck; exit 3")
    desk("jobs", "wait", job, expect=1)
    shown = desk.shown(job)
    assert (shown["state"], shown["exit_status"], shown["tries"]) == ("failed", 3, 2), shown
    assert desk("jobs", "logs", job).stdout.count("no luck") == 2


def test_cancel_ends_all_that_a_job_has_started(desk: Desk) -> None:
    second = f"41{os.getpid()}"
    job = desk.submit("--no-project", "--", "sh", "-c", f"sleep {second} & sleep {second}")
    Wait(what="the job to run", timeout_s=60, fix="look at squeue").until(
        lambda: desk.shown(job)["state"], lambda state: state == "running"
    )
    node = desk.shown(job)["node"]
    desk("jobs", "cancel", job)
    assert desk.shown(job)["state"] == "cancelled"
    assert desk.gpuprov("exec", node, "--", "pgrep", "-f", f"sleep {second}", expect=1).stdout == ""


def test_a_cluster_without_the_folder_says_what_to_type(gpuprov: Gpuprov, desk: Desk) -> None:
    gpuprov("cluster", "up", "--name", desk.place.cluster, "--share", "false", "--no-verify", "--engine", desk.engine)
    refused = desk("jobs", expect=2)
    assert f"gpuprov cluster up --name {desk.place.cluster} --share" in refused.stderr
    assert (desk.folder / "jobs").is_dir()
    gpuprov("cluster", "up", "--name", desk.place.cluster, "--share", "--no-verify", "--engine", desk.engine)
    assert desk("jobs").stdout.strip()
