"""Which jobs of a cluster make which runs of a grid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gpuprov.roles.work.grid_controller import run_command, store_of
from gpuprov.shapes.grids import is_stamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.roles.work.job_controller import JobController
    from gpuprov.shapes.jobs import Job, Submission

UNDER_WAY: Final = ("waiting", "running")
_MOST: Final = 200  # submissions of one grid; the newest count


@dataclass(frozen=True, kw_only=True)
class GridSubmission:
    """Runs of a grid that were submitted together.

    Attributes:
        id: Of the jobs.
        stamp: The name of the folder in which they were prepared.
        jobs: One for each run.
    """

    id: str
    stamp: str
    jobs: tuple[Job, ...]

    @property
    def is_under_way(self) -> bool:
        """Whether any of its runs waits or runs."""
        return any(job.state in UNDER_WAY for job in self.jobs)


def find_submissions(controller: JobController, name: str) -> tuple[GridSubmission, ...]:
    """The submissions of a grid, the oldest first.

    Args:
        controller: Where the cluster takes jobs.
        name: The project's.
    """
    if controller.shares_account:  # the runs of a project are together there, whoever submitted them
        controller = replace(controller, person="")
    named = [job.id.partition(".")[0] for job in controller.list_jobs().jobs if job.name == name]
    ids = sorted(set(named), key=int)[-_MOST:]
    if not ids:
        return ()
    shown = controller.show(ids)
    jobs: dict[str, list[Job]] = {}
    for job in shown.jobs:
        jobs.setdefault(job.id.partition(".")[0], []).append(job)
    store = store_of(name, controller.runs_as)
    stamps = {submission.id: _stamp(submission, store) for submission in shown.submissions}
    found = [
        GridSubmission(id=number, stamp=stamp, jobs=tuple(jobs.get(number, ())))
        for number, stamp in stamps.items()
        if stamp is not None
    ]
    return tuple(sorted(found, key=lambda submission: int(submission.id)))


def jobs_by_run(found: Sequence[GridSubmission], prepared: Mapping[str, tuple[str, ...]]) -> Mapping[str, Job]:
    """The job of each run: the one that is under way, or else the newest.

    Args:
        found: The submissions, the oldest first.
        prepared: The names of the runs of each submission, by the name of its folder.
    """
    jobs: dict[str, Job] = {}
    for submission in found:
        runs = dict(enumerate(prepared.get(submission.stamp, ())))
        for job in submission.jobs:
            run = runs.get(int(job.id.partition(".")[2] or "0"))
            if run is not None and (run not in jobs or jobs[run].state not in UNDER_WAY):
                jobs[run] = job
    return jobs


def _stamp(submission: Submission, store: str) -> str | None:
    """The name of the folder that a submission's runs were prepared in; None if it is not of this grid."""
    words = submission.order.command
    at = len(run_command("", 0)) - 2
    if len(words) <= at + 1 or words != run_command(words[at], submission.order.retries):
        return None
    folder, _, stamp = words[at].rpartition("/")
    return stamp if is_stamp(stamp) and folder == f"{store}/.submissions" else None
