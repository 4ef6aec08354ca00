"""A parameter grid on a real cluster of Slurm and of workers: the lab's known answers."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.desk import kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place

PARAMS = """\
param2requests = {"num_hidden_units": [64, 128, 256], "lr": [0.1, 0.01]}
param2default = {"lr": 0.1, "num_hidden_units": 32}
"""
JOB = """\
def main(param2val):
    return {"precision": [0.5, 0.5, 0.8], "recall": [0.4, 0.6, 0.7]}
"""
SLOW = """\
import time

def main(param2val):
    time.sleep(600)
"""
ORDER = [("64", "0.1"), ("64", "0.01"), ("128", "0.1"), ("128", "0.01"), ("256", "0.1"), ("256", "0.01")]


class Grid:
    """A cluster of two nodes that share a folder, and a project."""

    def __init__(self, gpuprov: Gpuprov, place: Place, project: Path) -> None:
        self.gpuprov, self.place, self.project = gpuprov, place, project
        self.store = Path("/srv/gpuprov") / place.cluster / "grids" / project.name / "runs"

    def __call__(self, verb: str, *options: str) -> Finished:
        return self.gpuprov("grid", verb, str(self.project), "--cluster", self.place.cluster, *options)

    def document(self, verb: str, *options: str) -> dict[str, Any]:
        found = self.gpuprov.json("grid", verb, str(self.project), "--cluster", self.place.cluster, *options)
        assert isinstance(found, dict)
        return found

    def run(self, *options: str) -> list[str]:
        """Submit what is missing, and wait."""
        document = self.document("run", *options)
        if document["id"]:
            self.gpuprov("jobs", "wait", document["id"], "--cluster", self.place.cluster)
        names: list[str] = document["runs"]
        return names


@pytest.fixture(
    scope="module", params=[param for role in ("slurm", "worker") for param in kinds(role, {("lxd", role)})]
)
def grid(
    request: pytest.FixtureRequest, gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Grid]:
    engine, role = request.param
    request.getfixturevalue({"lxd": "lxc"}.get(engine, engine))
    project = tmp_path_factory.mktemp("project") / "vision"
    (project / "src").mkdir(parents=True)
    (project / "src/params.py").write_text(PARAMS)
    (project / "src/job.py").write_text(JOB)
    spec = gpuprov.folder / f"grid-{engine}-{role}.yaml"
    spec.write_text(place.spec(engine=engine, nodes=f"role: {role}", share="true"))
    shutil.rmtree(f"/srv/gpuprov/{place.cluster}", ignore_errors=True)  # of a killed run
    gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
    yield Grid(gpuprov, place, project)
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes", "--engine", engine)


def test_the_known_answers_of_the_lab(grid: Grid, tmp_path: Path) -> None:
    first = grid.run()
    assert [name.partition("/")[0] for name in first] == [f"param_00{number}" for number in range(1, 7)]
    rows = [*csv.DictReader(grid("results").stdout.splitlines())]
    assert [(row["num_hidden_units"], row["lr"]) for row in rows] == ORDER
    assert {(row["last.precision"], row["last.recall"], row["run.state"]) for row in rows} == {("0.8", "0.7", "done")}
    assert {row["run.node"] for row in rows} <= {grid.place.node(0), grid.place.node(1)}
    assert grid.document("run")["id"] is None
    shutil.rmtree(grid.store / first[2])
    assert [name.partition("/")[0] for name in grid.run()] == ["param_003"]
    assert len(grid.run("--reps", "2")) == 6
    counts = {"done": 12, "failed": 0, "running": 0, "waiting": 0, "missing": 0}
    assert grid.document("status")["counts"] == counts
    grid("results", "--html", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_text().count(" runs, coloured by lr SIMULATED</text>") == 2


def test_runs_are_pulled_once(grid: Grid) -> None:
    grid.run()
    ended = grid.document("status")["counts"]["done"]
    document = grid.document("pull")
    assert (len(document["runs"]), document["here"]) == (ended, 0)
    assert len(list((grid.project / "runs").glob("param_*/*/precision.csv"))) == ended
    assert len((grid.project / "runs/results.csv").read_text().splitlines()) == ended + 1
    document = grid.document("pull")
    assert (document["runs"], document["here"]) == ([], ended)


def test_cancel_ends_what_waits_and_runs(grid: Grid) -> None:
    (grid.project / "src/job.py").write_text(SLOW)
    there = grid.document("status")["counts"]["done"]
    document = grid.document("run", "--reps", "3", "--at-most", "2")
    counts = grid.document("status")["counts"]
    assert counts["waiting"] + counts["running"] == len(document["runs"]) > 0
    jobs = grid.document("cancel")["jobs"]
    assert {job["state"] for job in jobs} == {"cancelled"}
    assert len(jobs) == len(document["runs"])
    counts = grid.document("status")["counts"]
    assert (counts["done"], counts["waiting"], counts["running"]) == (there, 0, 0)
