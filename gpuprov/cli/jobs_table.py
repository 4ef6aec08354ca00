"""What `jobs` and the verbs below it say to people."""

from __future__ import annotations

import shlex
from collections import Counter
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from gpuprov.cli.tables import PIPE, render_table, short_uuid
from gpuprov.core.excerpt import LINE, excerpt, few, first_lines
from gpuprov.core.names import fold
from gpuprov.core.units import MIB, render_duration
from gpuprov.roles.work.wait_reasons import explain_wait

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cli.tables import Screen
    from gpuprov.shapes.job_run import Notified
    from gpuprov.shapes.jobs import Job, JobChange, Jobs, JobsShown, Submission
    from gpuprov.shapes.submitter import Submitter

_HEADERS = ("JOB", "NAME", "STATE", "TRIES", "NODE", "GPU", "EXIT", "SUBMITTED", "STARTED", "ENDED", "REASON")
_MOST_GPUS = 8  # that a cell names: every line of a table is as wide as its widest
_SUMMARY: Final = ("JOB", "NAME", "STATE", "NODE", "GPU", "AGO", "TOOK", "USER")
_SPARE: Final = ("USER", "TOOK", "TRIES", "GPU")
_RUNS: Final = ("RUN", "STATE", "NODE", "GPU", "TRIES", "EXIT", "TOOK", "REASON")
_STATES: Final = ("done", "running", "waiting", "failed", "lost", "cancelled")
_WIDEST: Final = 20  # of a name, which is somebody's text
_MOST_REASONS: Final = 5


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


def render_summary(listed: Jobs, gpus: Mapping[str, str], now: datetime, *, screen: Screen) -> str:
    """A row a submission, and what is left out.

    Args:
        listed: The jobs.
        gpus: Short names of GPUs, by UUID.
        now: For what is told as a duration.
        screen: Where it is shown.
    """
    if not listed.jobs:
        return "no jobs"
    mark = _mixes_simulated(listed.jobs)
    rows = [_row(id_, jobs, gpus, now, mark=mark) for id_, jobs in by_submission(listed.jobs).items()]
    lines = [render_table(_SUMMARY, rows, screen=screen, spare=_SPARE), *_simulated_line(listed.jobs)]
    if listed.older:
        lines.append(f"{listed.older} older submissions are left out")
    return "\n".join([*lines, *name_waits(listed.jobs)])


def name_waits(jobs: Sequence[Job]) -> list[str]:
    """Why jobs wait, a line for each reason; of many, the first."""
    found: dict[str, dict[str, None]] = {}
    for job in jobs:
        if job.state == "waiting" and job.reason:
            found.setdefault(job.reason, {})[job.submission] = None
    lines = []
    for reason, names in list(found.items())[:_MOST_REASONS]:
        verb = "waits" if len(names) == 1 else "wait"
        lines.append(f"{few(list(names), _MOST_REASONS)} {verb}: {explain_wait(reason)}")
    return lines


def by_submission(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    """The jobs by the id of what they were submitted with, in their order."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.submission, []).append(job)
    return found


def sum_states(jobs: Sequence[Job]) -> str:
    """The states of jobs: `18 done, 2 running`; of one job, its state."""
    counts = Counter(job.state for job in jobs)
    if len(jobs) == 1:
        return jobs[0].state
    return ", ".join(f"{counts[state]} {state}" for state in _STATES if counts[state])


def took_s(jobs: Sequence[Job], now: datetime) -> float | None:
    """From the start of the first to the end of the last, or until now; None while none has started."""
    begins = list(filter(None, (_time(job.started) for job in jobs if job.state != "waiting")))
    ends = list(filter(None, (_time(job.ended) for job in jobs)))
    if any(job.state == "running" for job in jobs):
        ends.append(now)
    return (max(ends) - min(begins)).total_seconds() if begins and ends else None


def name_failures(jobs: Sequence[Job]) -> str:
    """Why jobs are not done, a line each; of many, the first."""
    bad = [job for job in jobs if job.state in ("failed", "lost")]
    lines = [f"{job.id} {job.state}: {job.reason or 'no reason is known'}" for job in bad]
    return first_lines(lines, _MOST_REASONS)


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


def render_shown(shown: JobsShown, names: Mapping[str, str], now: datetime, *, screen: Screen = PIPE) -> str:
    """Everything that is known of jobs, each below what it was submitted with; on a terminal, many runs as a table."""
    lines = []
    for submission in shown.submissions:
        jobs = [job for job in shown.jobs if job.submission == submission.id]
        lines += _submission_lines(submission, (jobs[0].submitter or None) if jobs else None)
        if screen.columns and len(jobs) > 1:
            mark = _mixes_simulated(jobs)
            rows = [_run_row(job, names, now, mark=mark) for job in jobs]
            lines.append(render_table(_RUNS, rows, screen=screen, spare=_SPARE))
            lines += _simulated_line(jobs)
            continue
        for job in jobs:
            lines += _job_lines(job, names)
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
        "GPUs": f"{order.gpu_type}:{order.gpus}" if order.gpu_type else order.gpus,
        "retries": order.retries,
        "code": submission.code,
        "folder": submission.folder,
        "Slurm": ", ".join(map(str, submission.slurm)),
        "notify": order.notify or None,
        "notified": _notified(submission.notified or None),
    }
    return [f"{submission.id}  submitted {submission.submitted}", *_lines(asked)]


def _notified(told: Notified | None) -> str | None:
    return None if told is None else f"{told.at}, {'ok' if told.ok else f'failed: {told.reason}'}"


def _submitter(told: Submitter) -> str:
    how = {"login": ", who logged in there", "user": ""}.get(told.known_by, ", a claim")
    whom = f", for {told.person}" if told.person else ""
    return f"{told.name} on {told.host}{whom}{how}{f'; by ssh from {told.ssh_from}' if told.ssh_from else ''}"


def _job_lines(job: Job, names: Mapping[str, str]) -> list[str]:
    told = {
        "tries": job.tries,
        "node": job.node,
        "GPU": f"{', '.join(_with_name(uuid, names) for uuid in job.gpus)}{' SIMULATED' if job.simulated else ''}",
        "exit": job.exit_status,
        "started": job.started,
        "ended": job.ended,
        "reason": _reason(job),
        "log": job.log,
    }
    return [f"{job.id}  {job.name}  {job.state}", *_lines(told)]


def _lines(told: Mapping[str, object]) -> list[str]:
    return [f"  {name:<10}{excerpt(str(value), LINE)}" for name, value in told.items() if value not in (None, "")]


def _gpus(job: Job) -> str:
    more = f",+{len(job.gpus) - _MOST_GPUS}" if len(job.gpus) > _MOST_GPUS else ""
    names = ",".join(short_uuid(uuid) for uuid in job.gpus[:_MOST_GPUS]) + more
    return f"{names} SIMULATED" if names and job.simulated else names


def _row(
    id_: str, jobs: Sequence[Job], gpus: Mapping[str, str], now: datetime, *, mark: bool
) -> tuple[str | None, ...]:
    first = jobs[0]
    took, submitted = took_s(jobs, now), _time(first.submitted)
    name = first.name if len(first.name) <= _WIDEST else f"{first.name[: _WIDEST - 3]}..."
    held = fold([gpus.get(uuid, short_uuid(uuid)) for job in jobs for uuid in job.gpus])
    submitter = first.submitter or None
    return (
        first.id if len(jobs) == 1 and first.id != id_ else id_,
        name,
        sum_states(jobs),
        fold([job.node for job in jobs if job.node]),
        f"{held} SIMULATED" if held and mark and any(job.simulated for job in jobs) else held,
        None if submitted is None else render_duration((now - submitted).total_seconds(), units=1),
        None if took is None else render_duration(took),
        submitter.owner if submitter else None,
    )


def _time(moment: str | None) -> datetime | None:
    """A time as a node told it; None for one that no calendar has."""
    try:
        return datetime.strptime(moment or "", "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def _mixes_simulated(jobs: Sequence[Job]) -> bool:
    """Whether some jobs had simulated GPUs, and others real ones: then each cell says it."""
    return len({job.simulated for job in jobs if job.gpus}) > 1


def _simulated_line(jobs: Sequence[Job]) -> list[str]:
    """Says it once of all of them."""
    return ["the GPUs are SIMULATED"] if {job.simulated for job in jobs if job.gpus} == {True} else []


def _run_row(job: Job, names: Mapping[str, str], now: datetime, *, mark: bool) -> tuple[object, ...]:
    took = took_s([job], now)
    gpus = fold([names.get(uuid, short_uuid(uuid)) for uuid in job.gpus])
    told = (f"{gpus} SIMULATED" if gpus and mark and job.simulated else gpus, job.tries, job.exit_status)
    return (job.id, job.state, job.node, *told, None if took is None else render_duration(took), _reason(job))


def _reason(job: Job) -> str | None:
    return explain_wait(job.reason) if job.reason and job.state == "waiting" else job.reason


def _with_name(uuid: str, names: Mapping[str, str]) -> str:
    return f"{names[uuid]} ({uuid})" if uuid in names else uuid
