"""`gpuprov program`: check, run, list, rm, page; `gpuprov example program`."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.options import as_option, folder_argument, get_file, get_folder, new_folder_argument, page_port_option
from gpuprov.cli.tables import PIPE, render_table
from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.cli.session import Session
    from gpuprov.cli.tables import Screen
    from gpuprov.core.outcome import Outcome
    from gpuprov.roles.work.queue_page import NodePage
    from gpuprov.shapes.programs import ListedProgram

PORT: Final = 8787
_HEADERS: Final = ("HASH", "NAME", "VERSION", "REGISTERED", "BUILT FOR")
_SHORT: Final = 12  # characters of a hash that tell it from others in a table


def _settings(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        name, equals, _ = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(
                f"--set {excerpt(text)!r} is not NAME=VALUE",
                evidence="NAME is a setting of the program",
                fix="--set max_iterations=10",
            )
    return texts


_INPUT: Final = (
    folder_argument("program", "DIR"),
    click.option("--data", metavar="FILE", help="CSV file of numbers, with or without a line of names."),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_settings,
        help="A setting; repeatable.",
    ),
)


def _get_data(text: str | None) -> Path | None:
    return None if text is None else get_file(text)


@command(*_INPUT)
def check(session: Session, program: str, data: str | None, settings: tuple[str, ...]) -> Result:
    """List all faults of the program in DIR, and of its data; changes nothing.

    Compares its header with its Python structures, and compiles it, with the compilers of this host. Prints its hash.
    """
    from gpuprov.project.program_check import check_program
    from gpuprov.shapes.programs import ProgramCheck
    from gpuprov.spec.program_order import ProgramOrder

    order = ProgramOrder(program=get_folder(program), data=_get_data(data), settings=settings)
    checked, sound = check_program(order)
    for words in checked.left_out:
        session.reporter.warn(f"not checked on this host: {words}")
    document = ProgramCheck(
        host=session.host.name, hash=sound.hash, name=sound.name, program_version=sound.version,
        files=checked.files, rows=checked.table.rows if checked.table else None, left_out=checked.left_out,
    )  # fmt: skip
    return Result(document=document, text=sound.hash)


@command(
    *_INPUT,
    click.option(
        "--workers", type=click.IntRange(1, 1000), metavar="N", help="Number of workers.  [default: one for each GPU]"
    ),
    click.option("--svg", metavar="FILE", help="Also draw the chart that the program makes of its result."),
    click.option("--local", is_flag=True, help="Run on this machine, without an engine."),
    as_option,
    cluster_option,
    engine_option,
)
def run(session: Session, /, **given: Any) -> int:  # noqa: ANN401 - what click hands over, by name
    """Run the program in DIR in iterations, each on all rows of the data, and print its result.

    Its workers are jobs of the cluster, one for each GPU; the rows are divided by the GPUs' rates. Faults of the
    program and of the data are all reported before anything is copied. On Ctrl-C, the jobs are cancelled.
    """
    from gpuprov.core.report_file import ReportFile
    from gpuprov.core.waiting import SystemClock
    from gpuprov.project.local_packages import find_gpus, require_charts
    from gpuprov.shapes.program_runs import ProgramRun
    from gpuprov.spec.program_order import ProgramOrder
    from gpuprov.stories.programs import run_program, run_program_here

    folder, data = get_folder(given["program"]), _get_data(given["data"])
    order = ProgramOrder(program=folder, data=data, settings=given["settings"], workers=given["workers"])
    file = None if given["svg"] is None else ReportFile(given["svg"], option="--svg", kind="chart")
    if file is not None:
        require_charts("--svg")
    cluster = None if given["local"] else session.cluster
    if cluster is None and given["person"]:
        typed = f"--as {given['person']}, with --local"
        raise UsageError("--as is for runs in a cluster", evidence=typed, fix="omit --as, or --local")
    if cluster is None:
        job, result = None, run_program_here(order, gpus=find_gpus(session.host), reporter=session.reporter)
    else:
        job, result = run_program(
            lambda: session.controller,
            cluster,
            order,
            reporter=session.reporter,
            clock=SystemClock(),
            person=given["person"],
        )
    if result.simulated:
        session.reporter.warn("SIMULATED: workers had simulated GPUs, or none")
    text = json.dumps(result.result, indent=1)
    session.show(ProgramRun(host=session.host.name, cluster=cluster, id=job, result=result), text)
    if file is None:
        return 0
    if result.chart is None:
        session.reporter.warn(f"not written: {file.path}; the program makes no chart of its result (docs/programs.md)")
        return 1
    from gpuprov.render.program_chart import render_chart

    file.write(render_chart(result.chart, simulated=result.simulated))
    session.reporter.note(f"written: {file.path}")
    return 0


@command(as_option, cluster_option, engine_option)
def list_(session: Session, person: str) -> Result:
    """List the programs that are registered in a cluster, and the kinds of GPU for which they are built."""
    from gpuprov.shapes.programs import ProgramList
    from gpuprov.stories.programs import list_programs

    programs = list_programs(session.controller, session.cluster, person=person)
    document = ProgramList(host=session.host.name, cluster=session.cluster, programs=programs)
    return Result(document=document, text=render_programs(programs, screen=session.screen))


def render_programs(programs: Sequence[ListedProgram], *, screen: Screen = PIPE) -> str:
    """A line for each program."""
    rows = [
        (one.hash[:_SHORT], one.name, one.version, one.registered, ",".join(one.built_for) or "-") for one in programs
    ]
    return render_table(_HEADERS, rows, screen=screen) if rows else "no programs"


@command(click.argument("program", metavar="HASH"), as_option, cluster_option, engine_option)
def remove(session: Session, program: str, person: str) -> Result:
    """Remove a registered program, named by its hash or the first 6 characters or more, and what was built from it."""
    from gpuprov.shapes.programs import ProgramList
    from gpuprov.stories.programs import remove_program

    row = remove_program(session.controller, session.cluster, program, person=person)
    document = ProgramList(host=session.host.name, cluster=session.cluster, programs=(row,))
    return Result(document=document, text=f"removed: {row.name} {row.version}, {row.hash}")


@command(page_port_option(PORT), as_option, cluster_option, engine_option)
def page(session: Session, port: int, person: str) -> None:
    """Let a browser on this host open Dask's page of the run that is under way, until Ctrl-C. Prints the address."""
    from gpuprov.core.relay import HERE
    from gpuprov.shapes.program_runs import ProgramPage
    from gpuprov.stories.programs import get_run_page
    from gpuprov.stories.queue_page import serve_page

    def ready(page: NodePage) -> None:
        address = f"http://{HERE}:{port}/status"
        document = ProgramPage(host=session.host.name, cluster=session.cluster, node=page.node, address=address)
        session.show(document, f"address: {address}")
        sys.stdout.flush()
        session.reporter.note("until Ctrl-C")

    driver = session.controller
    serve_page(
        *(driver, get_run_page(driver, session.cluster, person=person), session.cluster, port, session.host),
        verb="gpuprov program page", ready=ready, reporter=session.reporter,
    )  # fmt: skip


@command(new_folder_argument("program"))
def write_example(session: Session, folder: Path) -> Outcome:
    """Write a CUDA program that sums a column of a table into FOLDER, by default named after the example.

    FOLDER is created; if it exists, it must be empty. Its README has the commands that check and run it.
    """
    from gpuprov.stories.example import write_program

    outcome = write_program(folder)
    where = shlex.quote(str(folder))
    session.reporter.note(f"next: gpuprov program run {where} --data {where}/data.csv --set column=1 --local")
    return outcome
