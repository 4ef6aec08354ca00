"""The tables of jobs on a terminal, as data in and lines out."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from gpuprov.cli.jobs_table import name_failures, render_shown, render_summary, sum_states
from gpuprov.cli.tables import Screen
from gpuprov.shapes.base import changed
from gpuprov.shapes.job_order import JobOrder
from gpuprov.shapes.job_run import Notified
from gpuprov.shapes.jobs import Job, Jobs, JobsShown, Submission
from gpuprov.shapes.submitter import Submitter

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
SCREEN = Screen(columns=80)
GPU = "GPU-82fdd779-5151-4151-8151-000000000000"
JOB = Job(
    id="7",
    name="train.py",
    state="done",
    tries=1,
    node="c000",
    gpus=(GPU,),
    submitter=Submitter(name="ada", host="here", known_by="user", ssh_from=None),
    submitted="2026-01-01T11:57:00Z",
    started="2026-01-01T11:57:10Z",
    ended="2026-01-01T11:58:15Z",
    log="/shared/jobs/7/runs/0/log.txt",
)
MANY = [changed(JOB, id=f"8.{number}", node=f"c00{number % 2}") for number in range(18)]
MANY += [changed(JOB, id=f"8.{number}", state="running", ended=None) for number in (18, 19)]


def table(*jobs: Job, older: int = 0) -> list[str]:
    return render_summary(Jobs(jobs=jobs, older=older), {GPU: "nvidia0"}, NOW, screen=SCREEN).splitlines()


def test_a_submission_is_a_row_that_says_what_people_ask_for() -> None:
    controller, one, many = table(JOB, *MANY)
    assert controller.split() == ["JOB", "NAME", "STATE", "NODE", "GPU", "AGO", "TOOK", "USER"]
    assert one.split() == ["7", "train.py", "done", "c000", "nvidia0", "3m", "1m05s", "ada"]
    assert "  18 done, 2 running  " in many
    assert many.split()[-5:] == ["c[000-001]", "nvidia0", "3m", "2m50s", "ada"]


@pytest.mark.parametrize("name", ["x", "a" * 64])
def test_it_fits_80_columns_whatever_the_states(name: str) -> None:
    states = ("done", "running", "waiting", "failed", "lost", "cancelled")
    jobs = [changed(JOB, id=f"123456789.{n}", name=name, state=state, node=f"gpu{n}") for n, state in enumerate(states)]
    jobs = [changed(job, gpus=(GPU, f"{GPU[:-1]}{n}")) for n, job in enumerate(jobs)]
    assert max(map(len, table(*jobs))) <= 80


def test_simulated_gpus_say_so_once_or_each_where_some_are_real() -> None:
    simulated = changed(JOB, id="8", simulated=True)
    assert table(simulated)[-1] == "the GPUs are SIMULATED"
    mixed = table(JOB, simulated)
    assert ["SIMULATED" in line for line in mixed] == [False, False, True]


def test_what_never_began_and_what_a_hostile_node_says_has_no_times() -> None:
    waits = changed(JOB, state="waiting", started=None, ended=None, node=None, gpus=(), submitter=None)
    odd = changed(JOB, submitted="9999-99-99T99:99:99Z", started="0000-00-00T00:00:00Z")
    assert table(waits)[1].split() == ["7", "train.py", "waiting", "-", "-", "3m", "-", "-"]
    assert table(waits, odd)[1].split() == [
        "7",
        "train.py",
        "1",
        "done,",
        "1",
        "waiting",
        "c000",
        "nvidia0",
        "3m",
        "-",
        "-",
    ]
    assert table(JOB, older=3)[-1] == "3 older submissions are left out"
    assert table() == ["no jobs"]


def test_states_are_summed_and_failures_have_their_reason() -> None:
    assert sum_states([JOB]) == "done"
    failed = [changed(JOB, id=f"9.{number}", state="failed", reason="exit status 1") for number in range(7)]
    assert sum_states(failed) == "7 failed"
    assert name_failures([JOB]) == ""
    assert name_failures([JOB, *failed]).splitlines()[::5] == ["9.0 failed: exit status 1", "and 2 more"]


def test_shown_runs_are_a_table_on_a_terminal_and_blocks_in_a_pipe() -> None:
    order = JobOrder(command=("python3", "train.py"), count=20)
    submission = Submission(
        id="8", submitted=JOB.submitted, code=None, folder="/shared/jobs/8", slurm=(1,), order=order
    )
    shown = JobsShown(jobs=tuple(MANY), submissions=(submission,))
    lines = render_shown(shown, {GPU: "nvidia0"}, NOW, screen=SCREEN).splitlines()
    assert len(lines) < 20 + 12
    assert max(map(len, lines)) <= 80
    assert [line.split()[:4] for line in lines if line.startswith("8.19")] == [["8.19", "running", "c000", "nvidia0"]]
    assert len(render_shown(shown, {}, NOW).splitlines()) > 100


def test_what_came_of_a_notification_is_shown() -> None:
    order = JobOrder(command=("true",), notify="tell --to ada")
    told = Notified(at=JOB.submitted, ok=False, reason="exit status 3: no luck")
    made = Submission(
        id="8", submitted=JOB.submitted, code=None, folder="/shared/jobs/8", slurm=(), order=order, notified=told
    )
    shown = render_shown(JobsShown(jobs=(), submissions=(made,)), {}, NOW)
    assert "tell --to ada" in shown
    assert f"{JOB.submitted}, failed: exit status 3: no luck" in shown
