"""`gpuprov program run`."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.grid_project import get_project
from gpuprov.cli.open_fleet import open_desk
from gpuprov.cli.program_options import check_data, data_option, setting_option

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@click.argument("program", metavar="DIR", type=click.Path())
@data_option
@setting_option
@click.option(
    "--workers", type=click.IntRange(1, 1000), metavar="N", help="Number of workers.  [default: one for each GPU]"
)
@click.option("--svg", metavar="FILE", help="Also draw the chart that the program makes of its result.")
@click.option("--local", is_flag=True, help="Run on this machine, without an engine.")
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, /, **given: Any) -> int:  # noqa: ANN401 - what click hands over, by name
    """Run the program in DIR in iterations, each on all rows of the data, and print its result.

    Its workers are jobs of the cluster, one for each GPU; the rows are divided by the GPUs' rates. Faults of the
    program and of the data are all reported before anything is copied. On Ctrl-C, the jobs are cancelled.
    """
    from gpuprov.core.report_file import ReportFile
    from gpuprov.core.waiting import SystemClock
    from gpuprov.project.local_packages import find_gpus
    from gpuprov.render.program_chart import render_chart
    from gpuprov.shapes.program_runs import ProgramRun
    from gpuprov.spec.program_order import ProgramOrder
    from gpuprov.stories.programs import run_program, run_program_here

    folder, data = get_project(given["program"]), check_data(given["data"])
    order = ProgramOrder(program=folder, data=data, settings=given["settings"], workers=given["workers"])
    file = None if given["svg"] is None else ReportFile(given["svg"], option="--svg", kind="chart")
    cluster = None if given["local"] else given["cluster"]
    if cluster is None:
        job, result = None, run_program_here(order, gpus=find_gpus(session.host), reporter=session.reporter)
    else:
        connect = partial(open_desk, session, given["engine"], cluster)
        job, result = run_program(connect, cluster, order, reporter=session.reporter, clock=SystemClock())
    if result.simulated:
        session.reporter.warn("SIMULATED: workers had simulated GPUs, or none")
    text = json.dumps(result.result, indent=1)
    session.show(ProgramRun(host=session.host.name, cluster=cluster, id=job, result=result), text)
    if file is None:
        return 0
    if result.chart is None:
        session.reporter.warn(f"not written: {file.path}; the program makes no chart of its result (docs/programs.md)")
        return 1
    file.write(render_chart(result.chart, simulated=result.simulated))
    session.reporter.note(f"written: {file.path}")
    return 0
