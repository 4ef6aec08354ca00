"""`grid run`, `status`, `results`, `pull` and `cancel`: a grid's runs, as jobs of a cluster or here; holds no lock."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from gpuprov.assets import get_asset
from gpuprov.core.errors import UsageError
from gpuprov.core.execution import run_attached
from gpuprov.core.names import name_cluster
from gpuprov.lifecycle.find_controller import get_controller
from gpuprov.project.grid_check import check_grid, job_module
from gpuprov.project.imports import ask_imports
from gpuprov.project.local_packages import local_environment
from gpuprov.project.outgoing_files import OutgoingProject
from gpuprov.project.pulled_runs import TABLE, PulledRuns, only
from gpuprov.render.grid_csv import BEGIN, render_csv
from gpuprov.roles.work.grid_answers import run_name
from gpuprov.roles.work.grid_controller import GridController, store_of
from gpuprov.roles.work.grid_jobs import UNDER_WAY, find_submissions, jobs_by_run
from gpuprov.roles.work.grid_status import judge_runs
from gpuprov.roles.work.grid_submitter import GridSubmitter
from gpuprov.roles.work.node_contents import require_imports
from gpuprov.roles.work.received import receive_tree
from gpuprov.shapes.grids import GridPulled
from gpuprov.spec.grid_order import GridOrder, check_project_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.roles.work.job_controller import JobController
    from gpuprov.shapes.grids import GridListed, GridSeries, GridStatus, GridSubmitted
    from gpuprov.shapes.job_order import JobOrder
    from gpuprov.shapes.jobs import Job


# The program finds its package first, and what lies beside that package is no part of the user's program
_LOCAL: Final = (
    "import sys; sys.path[0] = sys.argv.pop(1); from gpuwork.grid.cli import main; del sys.path[0]; "
    "sys.exit(main(sys.argv[1:]))"
)


def run_grid(  # noqa: PLR0913  (what is run, where, as whom, and who is told)
    connect: Callable[[], Driver],
    cluster: str,
    project: Path,
    order: GridOrder,
    jobs: JobOrder,
    *,
    reporter: Reporter,
    person: str = "",
) -> GridSubmitted:
    """Check a project on this host, copy it into a node, and submit the runs that are missing there.

    Args:
        connect: Opens the engine, once nothing is wrong with the project.
        cluster: Name of the cluster.
        project: The folder.
        order: What of it is asked for.
        jobs: What each run gets; without a command.
        reporter: Is told what goes on.
        person: For whom the user acts; empty for nobody.

    Raises:
        UsageError: The project or what is asked for is wrong, or the cluster takes no jobs; nothing was submitted.
        SpecError: Nobody can tell what jobs of the cluster get by default; nothing was copied.
        EngineError: The node or its role refused.
        TimedOut: It did not end; the error says how to see whether it was submitted.
    """
    name = check_project_name(project.name)
    files = check_grid(order, project, jobs).files
    controller = get_controller_of(connect(), cluster, project, "run", person)
    limited, submitter = controller.accepted(jobs), GridSubmitter.of(controller)
    require_imports(controller, ask_imports(project, files, job_module(files)))
    with ExitStack() as until_submitted:
        with reporter.phase("copy"):
            place = until_submitted.enter_context(submitter.holding(OutgoingProject(project, files).tar()))
        try:
            with reporter.phase("submit"):
                return submitter.submit(order, limited, place, name=name)
        except KeyboardInterrupt:
            reporter.warn(controller.named("see whether it was submitted: gpuprov jobs"))
            raise


def run_grid_here(project: Path, order: GridOrder, *, at_most: int, gpus: HostGpus | None, quiet: bool) -> int:
    """Run what is missing on this machine, in this process's terminal; returns the program's exit code.

    Args:
        project: The folder, which also gets the runs.
        order: What of it is asked for.
        at_most: How many runs at once.
        gpus: Of this machine, if known.
        quiet: Whether stdout belongs to the caller's output.

    Raises:
        UsageError: The project or what is asked for is wrong; nothing was run.
        HostNotReady: This machine lacks modules that the project imports; nothing was run.
    """
    check_grid(order, project, None, here=local_environment(gpus))
    argv = [sys.executable, "-c", _LOCAL, str(get_asset("gpuwork").parent), "run", str(project), "--local"]
    return run_attached([*argv, "--at-most", str(at_most), *order.arguments], stdout_to_stderr=quiet)


def look_at_grid(connect: Callable[[], Driver], cluster: str, project: Path, *, person: str = "") -> GridStatus:
    """What has become of the runs of a project, and how many are missing of what it asks for now.

    Args:
        connect: Opens the engine, once nothing is wrong with the project.
        cluster: Name of the cluster.
        project: The folder.
        person: For whom the user acts; empty for nobody.

    Raises:
        UsageError: The project has faults, or the cluster takes no jobs.
    """
    name = check_project_name(project.name)
    checked = check_grid(GridOrder(), project, None)
    controller = get_controller_of(connect(), cluster, project, "status", person)
    combinations = checked.combinations
    if combinations is None:
        beside = GridController.beside(controller)
        with beside.holding(OutgoingProject(project, checked.files).tar()) as place:
            combinations = beside.combinations(place)
    found = find_submissions(controller, name)  # before the runs are read: one that ends meanwhile has its end then
    table = GridController.beside(controller).table(name)
    return judge_runs(name, table, jobs_by_run(found, table.submissions), combinations)


def read_grid(driver: Driver, cluster: str, project: Path, *, person: str = "") -> GridListed:
    """All runs of a project.

    Raises:
        UsageError: There are none.
    """
    controller = get_controller_of(driver, cluster, project, "results", person)
    return read_runs(GridController.beside(controller), project)


def read_grid_series(driver: Driver, cluster: str, project: Path, *, person: str = "") -> GridSeries:
    """The series of a project's runs, thinned out."""
    controller = get_controller_of(driver, cluster, project, "results", person)
    return GridController.beside(controller).series(project.name)


def cancel_grid(driver: Driver, cluster: str, project: Path, *, person: str = "") -> tuple[Job, ...]:
    """End the runs of a project that wait or run; what has ended stays as it is.

    Returns:
        The jobs that were under way, now ended.

    Raises:
        TimedOut: Some had not ended in time.
    """
    controller = get_controller_of(driver, cluster, project, "cancel", person)
    found = [one for one in find_submissions(controller, project.name) if one.is_under_way]
    if not found:
        return ()
    ended = {job.id for submission in found for job in submission.jobs if job.state not in UNDER_WAY}
    return tuple(job for job in controller.cancel([submission.id for submission in found]) if job.id not in ended)


def pull_grid(driver: Driver, cluster: str, project: Path, *, reporter: Reporter, person: str = "") -> GridPulled:
    """Copy the runs that have ended and are not here yet, and write a table of all runs beside them.

    Raises:
        UsageError: There are no runs, or something else is where they are to go.
        EngineError: They could not be read or written, or go over a limit.
        TimedOut: Nothing moved any more.
    """
    pulled = PulledRuns(project)
    controller = GridController.beside(get_controller_of(driver, cluster, project, "pull", person))
    table = read_runs(controller, project)
    ended = [run_name(run) for run in table.runs if run["run.state"] != "open"]
    wanted = pulled.lacks(ended)
    files = total_bytes = 0
    came: tuple[str, ...] = ()
    with pulled.receiving() as place:
        target = pulled.open_table(BEGIN)
        if wanted:
            got = receive_tree(
                controller, store_of(project.name, controller.runs_as), place, reporter, wants=only(wanted)
            )
            files, total_bytes = got.files, got.total_bytes
            came = pulled.take_in(place, wanted)
        target.write(render_csv(table))
    return GridPulled(
        cluster=cluster, project=project.name, folder=str(pulled.folder), table=str(pulled.folder / TABLE), runs=came,
        here=len(ended) - len(wanted), files=files, bytes=total_bytes,
    )  # fmt: skip


def get_controller_of(driver: Driver, cluster: str, project: Path, grid_verb: str, person: str) -> JobController:
    """Where a cluster takes jobs; the verb is what the user typed.

    Raises:
        UsageError: The project cannot have a grid there, or the cluster takes no jobs.
    """
    check_project_name(project.name)
    verb = f"gpuprov grid {grid_verb} {shlex.quote(str(project))}"
    return get_controller(driver, cluster, verb=verb, person=person)


def read_runs(controller: GridController, project: Path) -> GridListed:
    """All runs of a project.

    Raises:
        UsageError: There are none.
    """
    table = controller.table(project.name)
    if not table.rows:
        raise UsageError(
            f"cluster {controller.cluster} has no runs of {project.name}",
            evidence=f"{store_of(project.name, controller.runs_as)} in its nodes holds none",
            fix=name_cluster(f"gpuprov grid run {shlex.quote(str(project))}", controller.cluster)
            + (f" --as {controller.person}" if controller.person else ""),
        )
    return table
