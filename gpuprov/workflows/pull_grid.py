"""`grid pull`: the runs of a grid that have ended, from a cluster into the project's folder; holds no lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.host.incoming_files import IncomingFiles
from gpuprov.host.pulled_runs import TABLE, Pulled, PulledRuns, only
from gpuprov.planes.find_grid import find_desk_of, read_runs
from gpuprov.planes.grid_answers import run_name
from gpuprov.planes.grid_csv import BEGIN, render_csv
from gpuprov.planes.grid_desk import GridDesk, store_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver

_CHANGES = "changed as we read it"  # tar's words about runs that have not ended, which are not kept


def pull_grid(driver: Driver, cluster: str, project: Path, *, reporter: Reporter) -> Pulled:
    """Copy the runs that have ended and are not here yet, and write a table of all runs beside them.

    Raises:
        UsageError: There are no runs, or something else is where they are to go.
        EngineError: They could not be read or written, or go over a limit.
        TimedOut: Nothing moved any more.
    """
    pulled = PulledRuns(project)
    desk = GridDesk.beside(find_desk_of(driver, cluster, project, "pull"))
    table = read_runs(desk, project)
    ended = [run_name(run) for run in table.runs if run["run.state"] != "open"]
    wanted = pulled.lacks(ended)
    files = total_bytes = 0
    came: tuple[str, ...] = ()
    with pulled.receiving() as place:
        target = pulled.open_table(BEGIN)
        if wanted:
            files, total_bytes = _receive(desk, project.name, place, wanted, reporter)
            came = pulled.take_in(place, wanted)
        target.write(render_csv(table))
    return Pulled(
        folder=pulled.folder, table=pulled.folder / TABLE, runs=came,
        here=len(ended) - len(wanted), files=files, total_bytes=total_bytes,
    )  # fmt: skip


def _receive(desk: GridDesk, name: str, place: Path, wanted: frozenset[str], reporter: Reporter) -> tuple[int, int]:
    """Write the runs to a path; how many files, and their sizes."""
    store = store_of(name)
    with (
        reporter.phase("copy"),
        IncomingFiles(node=desk.node, path=store, kind="folder", target=place, wants=only(wanted)) as incoming,
    ):
        said = desk.driver.read_tree(desk.node, store, incoming.take)
    if incoming.left_out_words:
        reporter.warn(incoming.left_out_words)
    odd = "\n".join(line for line in said.splitlines() if _CHANGES not in line)
    if odd:
        reporter.warn(f"{desk.node} said while it was read: {excerpt(odd, LINE)}")
    return incoming.files, incoming.total_bytes
