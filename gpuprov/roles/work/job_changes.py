"""What is other with the jobs of a cluster than a moment ago: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.shapes.jobs import JobChange

if TYPE_CHECKING:
    from gpuprov.shapes.jobs import Jobs


def compare_jobs(before: Jobs, now: Jobs) -> tuple[JobChange, ...]:
    """What has changed; that a job waits for another reason is no change."""
    was = {job.id: job for job in before.jobs}
    there = {job.id for job in now.jobs}
    changes = []
    for job in now.jobs:
        old = was.get(job.id)
        if old is None:
            changes.append(JobChange(kind="new", job=job))
        elif (old.state, old.tries, old.node) != (job.state, job.tries, job.node):
            changes.append(JobChange(kind="changed", job=job))
    return (*changes, *(JobChange(kind="gone", job=job) for job in before.jobs if job.id not in there))
