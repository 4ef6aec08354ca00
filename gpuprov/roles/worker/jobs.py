"""The jobs that would end with nodes of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.roles.departure import Job
from gpuprov.spec.shared_folder import ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpuprov.roles.work.job_controller import JobController


def jobs_of_nodes(controller: JobController, names: Collection[str], *, queue: bool) -> tuple[Job, ...]:
    """What runs on these nodes, or on one that nobody can tell; with `queue` also what waits for one.

    Raises:
        GpuprovError: Nobody can tell.
    """
    return tuple(
        Job(
            id=job.id,
            user=job.submitter.person or ACCOUNT if job.submitter else ACCOUNT,
            name=job.name,
            place=job.node or "" if job.state == "running" else "",
        )
        for job in controller.list_live().jobs
        if (job.state == "running" and (job.node is None or job.node in names)) or (queue and job.state == "waiting")
    )
