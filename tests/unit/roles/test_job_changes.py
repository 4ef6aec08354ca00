from __future__ import annotations

from gpuprov.cli.jobs_table import render_job_change
from gpuprov.roles.work.job_changes import compare_jobs
from gpuprov.shapes.base import changed
from gpuprov.shapes.jobs import Job, JobChange, Jobs

JOB = Job(
    id="7.0",
    name="sweep",
    state="waiting",
    tries=0,
    node=None,
    gpus=(),
    simulated=False,
    exit_status=None,
    submitted="2026-01-01T00:00:00Z",
    started=None,
    ended=None,
    log="/shared/jobs/7/runs/0/log.txt",
    reason="Resources",
)


def changes(before: tuple[Job, ...], now: tuple[Job, ...]) -> list[str]:
    return [f"{one.kind}: {render_job_change(one)}" for one in compare_jobs(Jobs(jobs=before), Jobs(jobs=now))]


def test_each_job_is_told_when_it_comes_changes_and_goes() -> None:
    running = changed(JOB, state="running", tries=1, node="c001", reason=None)
    assert changes((), (JOB,)) == ["new: job 7.0 (sweep): waiting"]
    assert changes((JOB,), (running,)) == ["changed: job 7.0 (sweep): running on c001"]
    again = changed(running, tries=2, reason="exit status 3")
    assert changes((running,), (again,)) == ["changed: job 7.0 (sweep): running on c001, try 2: exit status 3"]
    assert changes((running,), (JOB,)) == ["changed: job 7.0 (sweep): waiting"]
    assert changes((JOB,), ()) == ["gone: job 7.0 (sweep): no longer listed"]


def test_another_reason_to_wait_is_no_change() -> None:
    assert changes((JOB,), (changed(JOB, reason="Priority"),)) == []


def test_trouble_is_told_in_one_harmless_line() -> None:
    assert render_job_change(JobChange(kind="recovered")) == "the jobs can be read again"
    told = render_job_change(JobChange(kind="error", text="no answer\nfix: \x1b[31mx"))
    assert told == "the jobs cannot be read: no answer\\nfix: \\x1b[31mx"
