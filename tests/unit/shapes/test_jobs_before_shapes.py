"""What the release before wrote and printed of jobs is read: its jobs live on, and its nodes are understood.

tests/data/jobs_before_shapes was recorded in a cluster of that release, version 0.1.0 at cf33b4e8.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuprov.roles.work.job_answers import read_jobs, read_log_piece, read_shown
from gpuprov.roles.work.node_program import parse_answer
from gpuprov.shapes.base import Shape, read, write
from gpuprov.shapes.error import Error
from gpuprov.shapes.faults import Fault
from gpuprov.shapes.hardware import Hardware, MachineHardware
from gpuprov.shapes.job_order import JobOrder
from gpuprov.shapes.job_run import JobRun, JobSubmission
from gpuprov.shapes.jobs import JobChecked
from gpuprov.shapes.submitter import Submitter
from gpuprov.shapes.workers import Said
from gpuwork.jobs.store import list_ids, read_run_record, read_submission
from gpuwork.jobs.submitter import read_submitter
from tests.schemas import validate

DATA = Path(__file__).parents[2] / "data/jobs_before_shapes"
STORE = DATA / "store"
KINDS: dict[str, type[Shape]] = {
    "order.json": JobOrder,
    "submitted.json": JobSubmission,
    "submitter.json": Submitter,
    "state.json": JobRun,
    "done.json": JobRun,
}


def answer(name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((DATA / f"answers/{name}.json").read_text())
    return told


@pytest.mark.parametrize("path", sorted(STORE.rglob("*.json")), ids=lambda path: str(path.relative_to(STORE)))
def test_each_file_is_read_and_would_be_written_as_it_is(path: Path) -> None:
    told = json.loads(path.read_text())
    assert write(read(KINDS[path.name], path.read_bytes())) == told
    if path.name != "submitter.json":
        validate(told)


def test_a_folder_of_jobs_is_read() -> None:
    assert list_ids(STORE) == ["2", "3", "4"]
    submissions = [read_submission(STORE / number) for number in list_ids(STORE)]
    assert [one.order.title for one in submissions] == ["task:train", "sh", "sleep"]
    assert submissions[0].order.arguments_of(1) == {"units": 128, "seed": 1}
    ends = [read_run_record(one.run_folder(run)) for one in submissions for run in range(one.order.runs)]
    assert [(end.state, end.exit_status) for end in ends] == [
        *[("done", 0)] * 2, ("failed", 3), ("cancelled", None),
    ]  # fmt: skip
    assert read_submitter(STORE / "2") == Submitter(name="root", host="vm", known_by="user", ssh_from=None)


@pytest.mark.parametrize("has_submitter", [True, False])
def test_what_its_program_answers_is_read(has_submitter: bool) -> None:
    told = answer("list")
    if not has_submitter:  # as the version before it told jobs
        for job in told["jobs"]:
            del job["submitter"]
    jobs = read_jobs(told)
    assert [(job.id, job.state) for job in jobs.jobs][:2] == [("1", "done"), ("2.0", "done")]
    assert jobs.older == 0
    assert {job["submitter"] and job["submitter"]["name"] for job in write(jobs)["jobs"]} == {
        "root" if has_submitter else None
    }
    validate(write(jobs))


def test_its_other_answers_are_read() -> None:
    assert read_jobs(answer("cancel")).jobs[0].state == "cancelled"
    shown = read_shown(answer("show"))
    assert [(one.id, one.slurm, one.order.gpus) for one in shown.submissions] == [("2", (3,), 1), ("3", (5,), 0)]
    assert read_log_piece(answer("logs"), job="2.1", start=0).text == "units 128 1\n"
    error = parse_answer((DATA / "answers/error.json").read_text())
    assert isinstance(error, Error)
    assert error.error.exit_code == 2
    assert write(read(MachineHardware, answer("hardware"))) == answer("hardware")
    assert write(read(Hardware, answer("hardware_of_host"))) == answer("hardware_of_host")


def test_what_else_it_says_is_read() -> None:
    said = {"node": "c000", "pid": 7, "gpu": "GPU-1", "name": "GPU-1@c000", "busy": False}
    assert write(read(Said, said)) == said
    fault = {"file": "order", "line": None, "where": "gpus", "message": "is 65", "allowed": "0 to 64"}
    checked = {"schema": "gpuprov.job-checked/v1", "version": 1, "files": ["train.py"], "faults": [fault]}
    assert read(JobChecked, checked).faults == (read(Fault, fault),)
