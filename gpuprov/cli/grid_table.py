"""What `grid status` says to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli.tables import PIPE, render_table
from gpuprov.shapes.base import write

if TYPE_CHECKING:
    from gpuprov.cli.tables import Screen
    from gpuprov.shapes.grids import GridRun, GridStatus

_HEADERS = ("STATE", "RUN", "VALUES", "JOB", "NODE", "GPU", "SECONDS", "REASON")
_UUID = 12  # characters of one that tell it from others in a table


def render_status(status: GridStatus, *, screen: Screen = PIPE) -> str:
    """A line for each run, and how many runs have each state."""
    rows = [
        (run.state, run.name, run.values, run.job, run.node, _gpus(run), run.seconds, run.reason) for run in status.runs
    ]
    table = [render_table(_HEADERS, rows, screen=screen)] if rows else []
    return "\n".join([*table, ", ".join(f"{state}: {count}" for state, count in write(status.counts).items())])


def _gpus(run: GridRun) -> str:
    names = ",".join(uuid[:_UUID] for uuid in run.gpus)
    return f"{names} SIMULATED".strip() if run.simulated else names
