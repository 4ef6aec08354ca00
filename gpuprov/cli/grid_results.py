"""`gpuprov grid results`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.grid_project import get_project, project_argument
from gpuprov.cli.open_fleet import open_desk

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@project_argument()
@click.option("--html", metavar="FILE", help="Also draw the series side by side, as one page.")
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, project: str, html: str | None, cluster: str, engine: str | None) -> None:
    """Print all runs of PROJECT as CSV: their values, how they ended, and the last value of each series."""
    from datetime import datetime, timezone

    from gpuprov.core.report_file import ReportFile
    from gpuprov.render.grid_csv import render_csv
    from gpuprov.render.grid_page import render_page
    from gpuprov.shapes.grids import GridResults
    from gpuprov.stories.grids import read_grid, read_grid_series

    folder = get_project(project)
    file = None if html is None else ReportFile(html, option="--html")
    driver = open_desk(session, engine, cluster)
    table = read_grid(driver, cluster, folder)
    if file is not None:
        series = read_grid_series(driver, cluster, folder)
        file.write(render_page(folder.name, table, series, made_at=datetime.now(timezone.utc)))
        session.reporter.note(f"written: {file.path}")
    if table.simulated:
        session.reporter.warn("SIMULATED: some runs had simulated GPUs")
    told = GridResults(
        host=session.host.name, cluster=cluster, project=folder.name, simulated=table.simulated, columns=table.columns,
        rows=table.rows,
    )  # fmt: skip
    session.show(told, render_csv(table))
