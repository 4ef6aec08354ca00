"""What `jobs` and the verbs below it say to people."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from gpuprov.cli.tables import PIPE, render_table
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.units import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cli.tables import Screen
    from gpuprov.shapes.jobs import Job, JobChange, Jobs, JobsShown, Submission
    from gpuprov.shapes.submitter import Submitter

_HEADERS = ("JOB", "NAME", "STATE", "TRIES", "NODE", "GPU", "EXIT", "SUBMITTED", "STARTED", "ENDED", "REASON")
_MOST_GPUS = 8  # that a cell names: every line of a table is as wide as its widest
_UUID = 12  # characters of one that tell it from others in a table


def render_jobs(jobs: Sequence[Job], *, screen: Screen = PIPE) -> str:
    """One line for each job; simulated GPUs say so in their own cell."""
    rows = [
        (
            *(job.id, job.name, job.state, job.tries, job.node, _gpus(job), job.exit_status),
            *(job.submitted, job.started, job.ended, job.reason),
        )
        for job in jobs
    ]
    return render_table(_HEADERS, rows, screen=screen) if rows else "no jobs"


def render_all_jobs(listed: Jobs, *, screen: Screen = PIPE) -> str:
    """All jobs, and what is left out."""
    older = f"\n{listed.older} older submissions are left out" if listed.older else ""
    return render_jobs(listed.jobs, screen=screen) + older


def render_job_change(change: JobChange) -> str:
    """A line for people."""
    if change.job is None:
        reason = excerpt(change.text or "", LINE)
        return f"the jobs cannot be read: {reason}" if reason else "the jobs can be read again"
    job = change.job
    if change.kind == "gone":
        return f"job {job.id} ({job.name}): no longer listed"
    place = f" on {job.node}" if job.node else ""
    tries = f", try {job.tries}" if job.tries > 1 else ""
    reason = f": {job.reason}" if job.reason and job.state != "waiting" else ""
    return f"job {job.id} ({job.name}): {job.state}{place}{tries}{reason}"


def render_shown(shown: JobsShown) -> str:
    """Everything that is known of jobs, each below what it was submitted with."""
    lines = []
    for submission in shown.submissions:
        jobs = [job for job in shown.jobs if job.id.partition(".")[0] == submission.id]
        lines += _submission_lines(submission, (jobs[0].submitter or None) if jobs else None)
        for job in jobs:
            lines += _job_lines(job)
    return "\n".join(lines)


def _submission_lines(submission: Submission, submitter: Submitter | None) -> list[str]:
    order = submission.order
    asked = {
        "by": None if submitter is None else _submitter(submitter),
        "command": shlex.join(order.command),
        "function": order.function,
        "arguments": ", ".join(f"{name}={value!r}" for name, value in order.arguments.items()),
        "runs": order.count,
        "at most": order.at_most,
        "time": f"{order.time_limit_s} s" if order.time_limit_s else None,
        "memory": f"{order.memory_bytes // MIB} MiB" if order.memory_bytes else None,
        "GPUs": order.gpus,
        "retries": order.retries,
        "code": submission.code,
        "folder": submission.folder,
        "Slurm": ", ".join(map(str, submission.slurm)),
    }
    return [f"{submission.id}  submitted {submission.submitted}", *_lines(asked)]


def _submitter(told: Submitter) -> str:
    how = {"login": ", who logged in there", "user": ""}.get(told.known_by, ", a claim")
    return f"{told.name} on {told.host}{how}{f'; by ssh from {told.ssh_from}' if told.ssh_from else ''}"


def _job_lines(job: Job) -> list[str]:
    told = {
        "tries": job.tries,
        "node": job.node,
        "GPU": f"{', '.join(job.gpus)}{' SIMULATED' if job.simulated else ''}",
        "exit": job.exit_status,
        "started": job.started,
        "ended": job.ended,
        "reason": job.reason,
        "log": job.log,
    }
    return [f"{job.id}  {job.name}  {job.state}", *_lines(told)]


def _lines(told: Mapping[str, object]) -> list[str]:
    return [f"  {name:<10}{excerpt(str(value), LINE)}" for name, value in told.items() if value not in (None, "")]


def _gpus(job: Job) -> str:
    more = f",+{len(job.gpus) - _MOST_GPUS}" if len(job.gpus) > _MOST_GPUS else ""
    names = ",".join(uuid[:_UUID] for uuid in job.gpus[:_MOST_GPUS]) + more
    return f"{names} SIMULATED" if names and job.simulated else names
