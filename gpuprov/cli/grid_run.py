"""`gpuprov grid run`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.grid_project import get_project, project_argument
from gpuprov.cli.open_fleet import open_desk
from gpuprov.cli.run_options import memory_option, parse_time_limit, retries_option, time_option
from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.shapes.grids import GridSubmitted
    from gpuprov.spec.grid_order import GridOrder


@click.command()
@project_argument()
@click.option("--reps", type=int, default=1, show_default=True, metavar="N", help="Runs of each combination.")
@click.option("--at-most", type=int, metavar="N", help="Number of runs at the same time.  [default with --local: 1]")
@click.option("--local", is_flag=True, help="Run on this machine, in PROJECT/runs, without an engine.")
@click.option("--minimal", is_flag=True, help="One run, of the defaults and the values for debugging.")
@click.option("--first-only", is_flag=True, help="Only the first combination.")
@time_option
@retries_option
@memory_option
@click.option("--gpus", type=int, default=1, show_default=True, metavar="N", help="GPUs of each run.")
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, /, **given: Any) -> int:  # noqa: ANN401 - what click hands over, by name
    """Submit the runs of PROJECT's parameter grid that are missing, and print the id of their job.

    A run is missing unless it is done, waits or runs. All faults of the project are reported before anything is copied.
    Jobs run on a frozen copy of the project.
    """
    from gpuprov.shapes.base import changed
    from gpuprov.shapes.job_order import JobOrder
    from gpuprov.spec.gpu_order import parse_memory
    from gpuprov.spec.grid_order import GridOrder
    from gpuprov.stories.grids import run_grid

    given["project"] = get_project(given["project"])
    order = GridOrder(reps=given["reps"], minimal=given["minimal"], first_only=given["first_only"])
    if given["local"]:
        return _run_here(session, given, order)
    memory, cluster = given["memory"], given["cluster"]
    jobs = JobOrder(
        at_most=given["at_most"],
        time_limit_s=parse_time_limit(given["time_limit"]),
        memory_bytes=None if memory is None else parse_memory(memory, "--memory"),
        gpus=given["gpus"],
        retries=given["retries"],
    )
    connect = partial(open_desk, session, given["engine"], cluster)
    submitted = run_grid(connect, cluster, given["project"], order, jobs, reporter=session.reporter)
    counted = _counted(submitted)
    if submitted.id is not None:
        session.reporter.note(counted)
    text = counted if submitted.id is None else submitted.id
    session.show(changed(submitted, host=session.host.name, cluster=cluster), text)
    return 0


def _run_here(session: Session, given: dict[str, Any], order: GridOrder) -> int:
    from gpuprov.project.local_packages import find_gpus
    from gpuprov.shapes.grids import GridLocal
    from gpuprov.stories.grids import run_grid_here

    context = click.get_current_context()
    for name, option in (
        ("time_limit", "--time"),
        ("retries", "--retries"),
        ("memory", "--memory"),
        ("gpus", "--gpus"),
    ):
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise UsageError(
                f"{option} is for runs in a cluster",
                evidence=f"{option} {given[name]}, with --local",
                fix=f"omit {option}, or --local",
            )
    at_most = 1 if given["at_most"] is None else given["at_most"]
    if not 1 <= at_most <= _MOST_HERE:
        raise UsageError(
            "--at-most: too many or too few runs at the same time",
            evidence=f"--at-most {at_most}; allowed: 1 to {_MOST_HERE}",
            fix="--at-most 2",
        )
    gpus = find_gpus(session.host)
    code = run_grid_here(given["project"], order, at_most=at_most, gpus=gpus, quiet=session.as_json)
    if session.as_json and code in (0, 1):
        project = given["project"]
        told = GridLocal(
            host=session.host.name, project=project.name, folder=str(project / "runs"), exit_code=1 if code else 0
        )
        session.show(told, "")
    return code


def _counted(submitted: GridSubmitted) -> str:
    other = f" ({submitted.other_code} with other code)" if submitted.other_code else ""
    busy = f", under way: {submitted.under_way}" if submitted.under_way else ""
    return f"submitted runs: {len(submitted.runs)}, done: {submitted.done}{other}{busy}"


_MOST_HERE = 1000
