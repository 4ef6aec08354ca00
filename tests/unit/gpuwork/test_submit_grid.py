"""What is sent into a node to submit a grid: nothing is submitted twice, and a refusal is told as it is."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuwork.freeze import remove_copy
from gpuwork.submit_grid import FOLDER, find_under_way, main
from tests.schemas import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fakes.slurm_commands import SlurmCommands
    from tests.fakes.worker_bed import WorkerBed
    from tests.unit.gpuwork.conftest import Jobs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "gpuwork/submit_grid.py").read_text()
ORDER = {
    "schema": "gpuprov.job-order/v1", "version": 1, "name": "Project", "gpus": 0, "count": 1,
    "command": ["python3", "-m", "gpuwork.grid", "one", FOLDER, "{n}"],
}  # fmt: skip


class Lab:
    """A project beside a shared folder; what is sent is run in this process."""

    def __init__(
        self, project: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.project, self.shared = project, shared
        self.jobs, self.store = shared / "jobs", shared / "grids/Project/runs"
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def asked(self, *options: str, **order: object) -> dict[str, Any]:
        told = {"project": str(self.project), "store": str(self.store), "jobs": str(self.jobs)}
        return {**told, "options": options, "order": {**ORDER, **order}}

    def submit(self, *options: str, code: int = 0, **order: object) -> dict[str, Any]:
        asked = json.dumps(self.asked(*options, **order)).encode()
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(asked)))
        self._capsys.readouterr()
        assert main() == code
        told: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        validate(told)
        return told

    def refused(self, *, code: int, **order: object) -> str:
        error = self.submit(code=code, **order)["error"]
        assert error["exit_code"] == code
        return str(error["what"])

    def under_way(self) -> set[str]:
        return {*find_under_way(self.asked())}

    def orders(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.jobs.glob("*/order.json"))]

    @property
    def untouched(self) -> bool:
        return list(self.shared.iterdir()) == []

    def finish(self) -> None:
        for copy in self.store.glob(".code/*"):
            remove_copy(copy)


@pytest.fixture
def lab(
    held: Jobs, make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Lab]:
    """With a Slurm that starts nothing."""
    made = Lab(make(), held.folder.parent, monkeypatch, capsys)
    yield made
    made.finish()


@pytest.fixture
def queue(
    bed: WorkerBed, make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Lab]:
    """With a broker, and no worker."""
    monkeypatch.setattr("gpuwork.jobs.arguments.BROKER", bed.url_file)
    made = Lab(make(), bed.shared, monkeypatch, capsys)
    yield made
    made.finish()


def test_what_is_missing_is_prepared_and_submitted_as_one_job(lab: Lab) -> None:
    first = lab.submit(at_most=4, retries=2)
    assert (first["project"], first["id"], len(first["runs"]), first["under_way"]) == ("Project", "1", 6, 0)
    (order,) = lab.orders()
    (folder,) = lab.store.glob(".submissions/*")
    assert order["command"] == ["python3", "-m", "gpuwork.grid", "one", str(folder), "{n}"]
    assert (order["count"], order["at_most"], order["retries"], order["project"]) == (6, 4, 2, None)
    assert json.loads((folder / "submission.json").read_text())["runs"] == first["runs"]


def test_what_is_under_way_is_not_submitted_again(lab: Lab, slurm: SlurmCommands) -> None:
    first, second = lab.submit(), lab.submit("--reps", "2")
    assert (second["id"], len(second["runs"]), second["under_way"]) == ("2", 6, 6)
    assert lab.under_way() == {*first["runs"], *second["runs"]}
    third = lab.submit("--reps", "2")
    assert (third["id"], third["runs"], third["under_way"]) == (None, [], 12)
    assert len(slurm.typed("sbatch")) == len(lab.orders()) == 2
    assert len(list(lab.store.glob(".submissions/*"))) == 2


def test_jobs_of_others_make_no_run_of_the_grid(lab: Lab, held: Jobs) -> None:
    lab.submit()
    (folder,) = map(str, lab.store.glob(".submissions/*"))
    held("cancel", "1")
    assert lab.under_way() == set()
    one = ("python3", "-m", "gpuwork.grid", "one")
    for command in (
        ("true",),
        ("ls", "-m", "gpuwork.grid", "one", folder, "{n}"),
        (*one, folder),
        (*one, folder, "0"),
        (*one, f"{folder}/x", "{n}"),
        (*one, str(lab.store), "{n}"),
        (*one, f"{lab.shared}/grids/Other/runs/.submissions/{Path(folder).name}", "{n}"),
    ):
        held.submit(*command, name="Project", count=9)
    held.submit(*one, folder, "{n}", name="Other", count=6)
    assert lab.under_way() == set()
    held.submit(*one, folder, "{n}", name="Project", count=9)
    assert len(lab.under_way()) == 6, "there are no more of them than were prepared"


def test_what_a_job_has_spoiled_is_no_run_that_is_under_way(lab: Lab) -> None:
    lab.submit()
    (folder,) = lab.store.glob(".submissions/*")
    (folder / "submission.json").write_text("{")
    assert lab.under_way() == set()
    assert lab.submit()["id"] == "2"


def test_workers_get_what_is_missing_too(queue: Lab, bed: WorkerBed) -> None:
    first = queue.submit()
    assert (first["id"], len(first["runs"])) == ("1", 6)
    assert bed.lose_messages() == 6
    assert (queue.submit()["id"], queue.under_way()) == (None, {*first["runs"]})


def test_what_workers_cannot_do_is_refused_and_made_in_the_same_folders_next_time(queue: Lab) -> None:
    assert queue.refused(code=2, gpus=2) == "a fault in the order; nothing was written"
    assert queue.orders() == []
    assert len(queue.submit()["runs"]) == 6
    assert len(list(queue.store.glob("param_*/*_num*"))) == 6


def test_a_wrong_project_is_refused_before_anything_is_written(lab: Lab) -> None:
    (lab.project / "src/job.py").write_text("def main(): pass\n")
    assert lab.refused(code=2).startswith("a fault in")
    assert lab.untouched


def test_a_slurm_that_does_not_answer_leaves_everything_as_it_was(lab: Lab, slurm: SlurmCommands) -> None:
    slurm.said_by("squeue", "slurm_load_jobs error: Unable to contact slurm controller", code=1)
    assert lab.refused(code=4)
    assert lab.untouched


def test_what_slurm_refuses_is_made_in_the_same_folders_next_time(lab: Lab, slurm: SlurmCommands) -> None:
    slurm.said_by("sbatch", "sbatch: error: Invalid account", code=1)
    assert lab.refused(code=4)
    runs = {str(path.relative_to(lab.store)) for path in lab.store.glob("param_*/*_num1")}
    slurm.obey("sbatch")
    assert {*lab.submit()["runs"]} == runs


def test_a_folder_of_jobs_that_cannot_be_read_is_told(lab: Lab) -> None:
    lab.jobs.touch()
    assert lab.refused(code=3) == "the folder of jobs cannot be read or written"


def test_the_text_needs_no_file_of_its_own(lab: Lab) -> None:
    def send() -> dict[str, Any]:
        argv = [sys.executable, "-c", TEXT, "submit"]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        asked = json.dumps(lab.asked()).encode()
        done = subprocess.run(argv, cwd="/", env=environment, input=asked, capture_output=True, check=False)
        told: dict[str, Any] = json.loads(done.stdout)
        validate(told)
        assert done.returncode == told.get("error", {}).get("exit_code", 0)
        return told

    assert (send()["id"], send()["under_way"]) == ("1", 6)
    (lab.project / "src/params.py").unlink()
    assert send()["error"]["exit_code"] == 2


def test_who_is_interrupted_says_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpuwork.jobs.cli.list_jobs", interrupt)
    with pytest.raises(SystemExit, match="130"):
        lab.submit()
    assert lab.untouched
