"""`grid run`: the runs of a grid that are missing, as jobs of a cluster or on this machine; holds no lock."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpuprov.assets import find_asset
from gpuprov.core.execution import run_attached
from gpuprov.core.names import name_cluster
from gpuprov.host.grid_check import check_grid
from gpuprov.host.outgoing_files import OutgoingProject
from gpuprov.planes.find_grid import find_desk_of
from gpuprov.planes.grid_answers import GridSubmitted
from gpuprov.planes.grid_desk import GridDesk, run_command
from gpuprov.planes.grid_jobs import UNDER_WAY, find_submissions, jobs_by_run
from gpuprov.spec.grid_order import check_project_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.planes.job_desk import JobDesk
    from gpuprov.spec.grid_order import GridOrder
    from gpuprov.spec.job_order import SubmitOrder

# The program finds its package first, and what lies beside that package is no part of the user's program
_LOCAL: Final = (
    "import sys; sys.path[0] = sys.argv.pop(1); from gpuwork.grid.cli import main; del sys.path[0]; "
    "sys.exit(main(sys.argv[1:]))"
)


def run_grid(
    connect: Callable[[], Driver],
    cluster: str,
    project: Path,
    order: GridOrder,
    jobs: SubmitOrder,
    *,
    reporter: Reporter,
) -> GridSubmitted:
    """Check a project on this host, copy it into a node, prepare the runs that are missing there, and submit them.

    Args:
        connect: Opens the engine, once nothing is wrong with the project.
        cluster: Name of the cluster.
        project: The folder.
        order: What of it is asked for.
        jobs: What each run gets; without a command.
        reporter: Is told what goes on.

    Raises:
        UsageError: The project or what is asked for is wrong, or the cluster takes no jobs; nothing was submitted.
        EngineError: The node or its plane refused.
        TimedOut: It did not end; the error says how to see whether it was submitted.
    """
    name = check_project_name(project.name)
    files = check_grid(order, project, jobs).files
    desk = find_desk_of(connect(), cluster, project, "run")
    grid = GridDesk.beside(desk)
    with ExitStack() as until_prepared:
        with reporter.phase("copy"):
            place = until_prepared.enter_context(grid.holding(OutgoingProject(project, files).tar()))
        with reporter.phase("prepare"):
            prepared = grid.prepare(order, place, name=name, under_way=_under_way(desk, grid, name))
    if prepared.folder is None:
        return GridSubmitted(project=name, id=None, prepared=prepared)
    command = run_command(prepared.folder, jobs.retries)
    asked = replace(jobs, name=name, command=command, count=len(prepared.runs))
    try:
        with reporter.phase("submit"):
            return GridSubmitted(project=name, id=desk.submit(asked, None).id, prepared=prepared)
    except KeyboardInterrupt:
        reporter.warn(name_cluster("see whether it was submitted: gpuprov jobs", cluster))
        raise


def _under_way(desk: JobDesk, grid: GridDesk, name: str) -> tuple[str, ...]:
    """The names of runs that wait or run."""
    found = [submission for submission in find_submissions(desk, name) if submission.is_under_way]
    jobs = jobs_by_run(found, grid.table(name).submissions) if found else {}
    return tuple(run for run, job in jobs.items() if job.state in UNDER_WAY)


def run_grid_here(project: Path, order: GridOrder, *, at_most: int, quiet: bool) -> int:
    """Run what is missing on this machine, in this process's terminal; returns the program's exit code.

    Args:
        project: The folder, which also gets the runs.
        order: What of it is asked for.
        at_most: How many runs at once.
        quiet: Whether stdout is somebody else's.

    Raises:
        UsageError: The project or what is asked for is wrong; nothing was run.
    """
    check_grid(order, project, None)
    argv = [sys.executable, "-c", _LOCAL, str(find_asset("gpuwork").parent), "run", str(project), "--local"]
    return run_attached([*argv, "--at-most", str(at_most), *order.arguments], stdout_to_stderr=quiet)
