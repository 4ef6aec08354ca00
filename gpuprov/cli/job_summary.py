"""The jobs of a cluster for people: a row a submission, its states summed, and times as they are told."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from gpuprov.cli.tables import render_table
from gpuprov.core.names import fold
from gpuprov.core.units import render_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cli.tables import Screen
    from gpuprov.shapes.jobs import Job, Jobs, JobState

_HEADERS: Final = ("JOB", "NAME", "STATE", "NODE", "GPU", "AGO", "TOOK", "USER")
_SPARE: Final = ("USER", "TOOK", "NODE", "GPU")
_STATES: Final[tuple[JobState, ...]] = ("done", "running", "waiting", "failed", "lost", "cancelled")
_WIDEST: Final = 24  # of a name, which is somebody's text
_KNOWN: Final = 12  # characters of a UUID that tell it from others in a table


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
    told = [job for job in listed.jobs if job.gpus]
    some, all_ = any(job.simulated for job in told), all(job.simulated for job in told)
    rows = [_row(id_, jobs, gpus, now, mark=some and not all_) for id_, jobs in by_submission(listed.jobs).items()]
    lines = [render_table(_HEADERS, rows, screen=screen, spare=_SPARE)]
    if told and all_:
        lines.append("the GPUs are SIMULATED")
    if listed.older:
        lines.append(f"{listed.older} older submissions are left out")
    return "\n".join(lines)


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


def _row(
    id_: str, jobs: Sequence[Job], gpus: Mapping[str, str], now: datetime, *, mark: bool
) -> tuple[str | None, ...]:
    first = jobs[0]
    took, submitted = took_s(jobs, now), _time(first.submitted)
    name = first.name if len(first.name) <= _WIDEST else f"{first.name[: _WIDEST - 3]}..."
    held = fold([gpus.get(uuid, uuid[:_KNOWN]) for job in jobs for uuid in job.gpus])
    submitter = first.submitter or None
    return (
        first.id if len(jobs) == 1 and first.id != id_ else id_,
        name,
        sum_states(jobs),
        fold([job.node for job in jobs if job.node]),
        f"{held} SIMULATED" if held and mark and any(job.simulated for job in jobs) else held,
        None if submitted is None else render_duration((now - submitted).total_seconds(), units=1),
        None if took is None else render_duration(took),
        submitter.name if submitter else None,
    )


def _time(moment: str | None) -> datetime | None:
    """A time as a node told it; None for one that no calendar has."""
    try:
        return datetime.strptime(moment or "", "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
