"""`grid status`, `results` and `cancel`: the runs of a grid in a cluster, looked at and ended; holds no lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.host.grid_check import check_grid
from gpuprov.planes.find_grid import find_desk_of, read_runs
from gpuprov.planes.grid_desk import GridDesk
from gpuprov.planes.grid_jobs import UNDER_WAY, find_submissions, jobs_by_run
from gpuprov.planes.grid_status import judge_runs
from gpuprov.spec.grid_order import GridOrder, check_project_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpuprov.drivers.base import Driver
    from gpuprov.planes.grid_answers import GridSeries, GridTable
    from gpuprov.planes.grid_status import GridStatus
    from gpuprov.planes.job_answers import JobRecord


def look_at_grid(connect: Callable[[], Driver], cluster: str, project: Path) -> GridStatus:
    """What has become of the runs of a project, and how many are missing of what it asks for now.

    Args:
        connect: Opens the engine, once nothing is wrong with the project.
        cluster: Name of the cluster.
        project: The folder.

    Raises:
        UsageError: The project has faults, or the cluster takes no jobs.
    """
    name = check_project_name(project.name)
    combinations = check_grid(GridOrder(), project, None).combinations
    desk = find_desk_of(connect(), cluster, project, "status")
    found = find_submissions(desk, name)  # before the runs are read: one that ends meanwhile has its end then
    table = GridDesk.beside(desk).table(name)
    return judge_runs(name, table, jobs_by_run(found, table.submissions), combinations)


def read_grid(driver: Driver, cluster: str, project: Path) -> GridTable:
    """All runs of a project.

    Raises:
        UsageError: There are none.
    """
    return read_runs(GridDesk.beside(find_desk_of(driver, cluster, project, "results")), project)


def read_grid_series(driver: Driver, cluster: str, project: Path) -> GridSeries:
    """The series of a project's runs, thinned out."""
    return GridDesk.beside(find_desk_of(driver, cluster, project, "results")).series(project.name)


def cancel_grid(driver: Driver, cluster: str, project: Path) -> tuple[JobRecord, ...]:
    """End the runs of a project that wait or run; what has ended stays as it is.

    Returns:
        The jobs that were under way, now ended.

    Raises:
        TimedOut: Some had not ended in time.
    """
    desk = find_desk_of(driver, cluster, project, "cancel")
    found = [one for one in find_submissions(desk, project.name) if one.is_under_way]
    if not found:
        return ()
    ended = {job.id for submission in found for job in submission.jobs if job.state not in UNDER_WAY}
    return tuple(job for job in desk.cancel([submission.id for submission in found]) if job.id not in ended)
