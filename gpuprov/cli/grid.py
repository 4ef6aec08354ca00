"""`gpuprov grid`: run, status, results, pull, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.options import (
    as_option,
    folder_argument,
    get_folder,
    gpus_option,
    memory_option,
    parse_gpus,
    parse_time_limit,
    retries_option,
    time_option,
)
from gpuprov.cli.tables import render_table, short_uuid
from gpuprov.core.errors import UsageError
from gpuprov.roles.work.wait_reasons import explain_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gpuprov.cli.session import Session
    from gpuprov.cli.tables import Screen
    from gpuprov.core.report_file import ReportFile
    from gpuprov.render.grid_order import Goal
    from gpuprov.shapes.faults import Fault
    from gpuprov.shapes.grids import GridListed, GridRun, GridStatus, GridSubmitted
    from gpuprov.spec.grid_order import GridOrder

Value = TypeVar("Value")
_STATUS: Final = ("STATE", "RUN", "VALUES", "JOB", "NODE", "GPU", "SECONDS", "REASON")
_IN_CLUSTERS: Final = {
    "time_limit": "--time",
    "retries": "--retries",
    "memory": "--memory",
    "gpus": "--gpus",
    "person": "--as",
}
_MOST_HERE: Final = 1000


@command(
    folder_argument("project"),
    click.option("--reps", type=int, default=1, show_default=True, metavar="N", help="Runs of each combination."),
    click.option("--at-most", type=int, metavar="N", help="Runs at the same time.  [default with --local: 1]"),
    click.option("--local", is_flag=True, help="Run on this machine, in PROJECT/runs, without an engine."),
    click.option("--minimal", is_flag=True, help="One run, of the defaults and the values for debugging."),
    click.option("--first-only", is_flag=True, help="Only the first combination."),
    time_option,
    retries_option,
    memory_option,
    gpus_option,
    as_option,
    cluster_option,
    engine_option,
)
def run(session: Session, /, **given: Any) -> Result | int:  # noqa: ANN401 - what click hands over, by name
    """Submit the runs of PROJECT's parameter grid that are missing, and print the id of their job.

    A run is missing unless it is done, waits or runs. All faults of the project are reported before anything is copied.
    Jobs run on a frozen copy of the project.
    """
    from msgspec import UNSET

    from gpuprov.shapes.job_order import JobOrder
    from gpuprov.stories.grids import run_grid

    project = get_folder(given["project"])
    faults: list[Fault] = []
    if given["local"]:
        at_most = _at_most_here(given["at_most"], faults)
        return _run_here(session, project, _order(given, faults), at_most=at_most)
    gpu_type, gpus = _typed(faults, "gpus", lambda: parse_gpus(given["gpus"])) or (UNSET, None)
    jobs = JobOrder(
        at_most=given["at_most"],
        time_limit_s=_typed(faults, "time_limit_s", lambda: parse_time_limit(given["time_limit"])),
        memory_bytes=_typed(faults, "memory_bytes", lambda: _bytes(given["memory"])),
        gpus=1 if gpus is None else gpus,
        gpu_type=gpu_type,
        retries=given["retries"],
    )
    order = _order(given, faults)
    submitted = run_grid(
        lambda: session.controller,
        session.cluster,
        project,
        order,
        jobs,
        reporter=session.reporter,
        person=given["person"],
    )
    counted = _counted(submitted)
    session.reporter.note(counted)
    if submitted.id is None and not session.as_json:
        return 0
    return Result(document=submitted, text=submitted.id or "")


def _typed(faults: list[Fault], where: str, read: Callable[[], Value]) -> Value | None:
    """What an option says; where that is wrong, it is told with all else that is."""
    from gpuprov.shapes.faults import Fault

    try:
        return read()
    except UsageError as error:
        message = error.what.partition(" ")[2] if error.what.startswith("--") else error.what
        allowed = error.evidence.removeprefix("allowed: ")
        faults.append(Fault(file="order", where=where, message=message, allowed=allowed))
        return None


def _bytes(text: str | None) -> int | None:
    from gpuprov.spec.gpu_order import parse_memory

    return None if text is None else parse_memory(text, "--memory")


def _order(given: dict[str, Any], faults: Sequence[Fault]) -> GridOrder:
    from gpuprov.spec.grid_order import GridOrder

    return GridOrder(reps=given["reps"], minimal=given["minimal"], first_only=given["first_only"], faults=tuple(faults))


def _at_most_here(number: int | None, faults: list[Fault]) -> int:
    """How many runs at once on this machine; refuses what is for runs in a cluster."""
    from gpuprov.shapes.faults import Fault

    context = click.get_current_context()
    default = click.core.ParameterSource.DEFAULT
    wrong = [option for name, option in _IN_CLUSTERS.items() if context.get_parameter_source(name) is not default]
    if wrong:
        words = " and ".join(wrong)
        raise UsageError(
            f"{words} {'are' if wrong[1:] else 'is'} for runs in a cluster",
            evidence=f"{words}, with --local",
            fix=f"omit {words}, or --local",
        )
    at_most = 1 if number is None else number
    if not 1 <= at_most <= _MOST_HERE:
        faults.append(Fault(file="order", where="at_most", message=f"is {at_most}", allowed=f"1 to {_MOST_HERE:,}"))
    return at_most


def _run_here(session: Session, project: Path, order: GridOrder, *, at_most: int) -> int:
    from gpuprov.project.local_packages import find_gpus
    from gpuprov.shapes.grids import GridLocal
    from gpuprov.stories.grids import run_grid_here

    code = run_grid_here(project, order, at_most=at_most, gpus=find_gpus(session.host), quiet=session.as_json)
    if session.as_json and code in (0, 1):
        told = GridLocal(
            host=session.host.name, project=project.name, folder=str(project / "runs"), exit_code=1 if code else 0
        )
        session.show(told, "")
    return code


def _counted(submitted: GridSubmitted) -> str:
    other = f" ({submitted.other_code} with other code)" if submitted.other_code else ""
    busy = f", under way: {submitted.under_way}" if submitted.under_way else ""
    return f"submitted runs: {len(submitted.runs)}, done: {submitted.done}{other}{busy}"


@command(folder_argument("project"), as_option, cluster_option, engine_option)
def status(session: Session, project: str, person: str) -> Result:
    """List the runs of PROJECT by state: done, failed, running, waiting; and how many are missing.

    Missing are the combinations of values that have no run that is done, waits or runs: `grid run` would submit them.
    """
    from gpuprov.shapes.base import changed
    from gpuprov.stories.grids import look_at_grid

    found = look_at_grid(lambda: session.controller, session.cluster, get_folder(project), person=person)
    document = changed(found, host=session.host.name, cluster=session.cluster)
    return Result(document=document, text=render_status(found, screen=session.screen))


def render_status(found: GridStatus, *, screen: Screen) -> str:
    """A line for each run, and how many runs have each state."""
    from gpuprov.shapes.base import write

    rows = [
        (run.state, run.name, run.values, run.job, run.node, _gpus(run), run.seconds, _reason(run))
        for run in found.runs
    ]
    spare = ("GPU", "SECONDS", "RUN", "NODE")
    table = [render_table(_STATUS, rows, screen=screen, spare=spare)] if rows else []
    return "\n".join([*table, ", ".join(f"{state}: {count}" for state, count in write(found.counts).items())])


def _reason(run: GridRun) -> str | None:
    return explain_wait(run.reason) if run.reason and run.state == "waiting" else run.reason


def _gpus(run: GridRun) -> str:
    names = ",".join(map(short_uuid, run.gpus))
    return f"{names} SIMULATED".strip() if run.simulated else names


@command(
    folder_argument("project"),
    click.option("--html", metavar="FILE", help="Also write a page with the table and a chart for each series."),
    click.option("--lowest", metavar="SERIES", help="The best run has the lowest last value of SERIES."),
    click.option(
        "--highest", metavar="SERIES",
        help="The best run has the highest last value of SERIES.  [default: the first series; lowest for a loss]",
    ),
    as_option,
    cluster_option,
    engine_option,
)  # fmt: skip
def results(
    session: Session, project: str, html: str | None, lowest: str | None, highest: str | None, person: str
) -> Result:
    """Show all runs of PROJECT: their values, how they ended, and the last value of each series.

    At a terminal, a table with the best run first; in a pipe, CSV with all columns, in the order of the runs unless
    --lowest or --highest is given.
    """
    from gpuprov.core.report_file import ReportFile
    from gpuprov.render.grid_csv import render_csv
    from gpuprov.render.grid_order import choose_goal, order_rows
    from gpuprov.shapes.base import changed
    from gpuprov.shapes.grids import GridResults
    from gpuprov.stories.grids import read_grid

    folder = get_folder(project)
    file = None if html is None else ReportFile(html, option="--html")
    table = read_grid(session.controller, session.cluster, folder, person=person)
    goal = choose_goal(table, lowest=lowest, highest=highest)
    if file is not None:
        _write_page(session, file, project=folder, table=table, goal=goal, person=person)
    if table.simulated:
        session.reporter.warn("SIMULATED: some runs had simulated GPUs")
    is_at_terminal = session.screen.columns is not None and not session.as_json
    if goal is not None and (is_at_terminal or lowest is not None or highest is not None):
        table = changed(table, rows=order_rows(table, goal))
    text = render_results(table, goal, screen=session.screen) if is_at_terminal else render_csv(table)
    told = GridResults(
        host=session.host.name, cluster=session.cluster, project=folder.name, simulated=table.simulated,
        columns=table.columns, rows=table.rows,
    )  # fmt: skip
    return Result(document=told, text=text)


def _write_page(
    session: Session, file: ReportFile, *, project: Path, table: GridListed, goal: Goal | None, person: str
) -> None:
    from datetime import datetime, timezone

    from gpuprov.project.local_packages import lacks_charts
    from gpuprov.render.grid_page import render_page
    from gpuprov.stories.grids import read_grid_series

    lacks = lacks_charts()
    series = read_grid_series(session.controller, session.cluster, project, person=person)
    file.write(render_page(project.name, table, series, goal, made_at=datetime.now(timezone.utc), no_charts=lacks))
    if lacks:
        session.reporter.warn(f"{file.path} has no charts: {lacks}")
    session.reporter.note(f"written: {file.path}")


def render_results(table: GridListed, goal: Goal | None, *, screen: Screen) -> str:
    """A line for each run: what tells it from the others, and what it gave."""
    from gpuprov.render.grid_order import LAST, short_number, varied_parameters

    runs = table.runs
    several = len({run["param_name"] for run in runs}) < len(runs)
    varied = varied_parameters(table)
    series = [name for name in table.columns if name.startswith(LAST)]
    best = [f"{LAST}{goal.series}"] if goal else []
    others = [name for name in series if name not in best]
    headers = ("RUN", *varied, *(name.removeprefix(LAST) for name in (*best, *others)), "STATE", "SECONDS", "REASON")
    rows = [
        (
            f"{run['param_name']}/{run['job_name']}" if several else run["param_name"],
            *(short_number(run[name]) for name in (*varied, *best, *others)),
            run["run.state"],
            short_number(run["run.seconds"]),
            run["run.reason"],
        )
        for run in runs
    ]
    spare = ("SECONDS", "REASON", *(name.removeprefix(LAST) for name in reversed(others)), *reversed(varied))
    if not any(run["run.reason"] for run in runs):
        headers, rows = headers[:-1], [row[:-1] for row in rows]
    lines = [render_table(headers, rows, screen=screen, spare=spare)]
    if goal:
        lines.append(f"the best first: {goal}")
    return "\n".join(lines)


@command(folder_argument("project"), as_option, cluster_option, engine_option)
def pull(session: Session, project: str, person: str) -> Result:
    """Copy the runs of PROJECT that have ended into PROJECT/runs, and write a table of all runs, runs/results.csv.

    Runs that are there already are left as they are, and so are other files.
    """
    from gpuprov.shapes.base import changed
    from gpuprov.stories.grids import pull_grid

    pulled = pull_grid(
        session.controller, session.cluster, get_folder(project), reporter=session.reporter, person=person
    )
    before = f"; {pulled.here} were there before" if pulled.here else ""
    text = f"copied {len(pulled.runs)} runs to {pulled.folder}: {pulled.files} files, {pulled.bytes} bytes{before}"
    return Result(document=changed(pulled, host=session.host.name), text=text)


@command(folder_argument("project"), as_option, cluster_option, engine_option)
def cancel(session: Session, project: str, person: str) -> Result:
    """End the runs of PROJECT that wait or run, and show their jobs once they have ended."""
    from gpuprov.cli.jobs_table import render_jobs
    from gpuprov.shapes.jobs import Jobs
    from gpuprov.stories.grids import cancel_grid

    folder = get_folder(project)
    jobs = cancel_grid(session.controller, session.cluster, folder, person=person)
    text = render_jobs(jobs, screen=session.screen) if jobs else f"no run of {folder.name} is waiting or running"
    return Result(document=Jobs(jobs=jobs), text=text)
