"""What the program `gpuwork.grid` in a node answers: root in the node can say anything in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.base import read
from gpuprov.shapes.grids import GridChecked, GridListed, GridSubmitted, is_run_name

if TYPE_CHECKING:
    from collections.abc import Mapping

_STATES: Final = ("done", "failed", "open")
_ABOUT: Final = frozenset(
    f"run.{name}" for name in ("state", "exit_status", "reason", "node", "gpus", "simulated", "started", "seconds")
)


def run_name(run: Mapping[str, str]) -> str:
    """The name of the run that a row is about."""
    return f"{run['param_name']}/{run['job_name']}"


def read_grid_submitted(told: Mapping[str, Any], project: str) -> GridSubmitted:
    """What was submitted of a project; raises ValueError for anything else."""
    submitted = read(GridSubmitted, told)
    if submitted.project != project:
        raise ValueError(f"it is about {submitted.project}")
    if (submitted.id is None) != (not submitted.runs):
        raise ValueError("it has an id without runs, or runs without an id")
    return submitted


def read_combinations(told: Mapping[str, Any]) -> tuple[str, ...]:
    """The hash of the values of each combination; raises ValueError for anything else, faults included."""
    checked = read(GridChecked, told)
    if checked.faults or checked.combinations is None:
        why = "; ".join(map(str, checked.faults)) or "a package of its params.py is missing"
        raise ValueError(f"the project has faults there: {why}")
    return checked.combinations


def read_table(told: Mapping[str, Any]) -> GridListed:
    """All runs; raises ValueError for anything else."""
    table = read(GridListed, told)
    columns = table.columns
    if columns[:2] != ("param_name", "job_name") or len({*columns}) < len(columns) or not _ABOUT.issubset(columns):
        raise ValueError("its columns are not those of a grid")
    if any(len(row) != len(columns) for row in table.rows):
        raise ValueError("a row has more or fewer cells than there are columns")
    names = [*map(run_name, table.runs)]
    for name, run in zip(names, table.runs, strict=True):
        is_known = run["run.state"] in _STATES and run["param_name"] in table.combinations
        if not is_known or not is_run_name(name):
            raise ValueError(f"a row belongs to no run: {name[:100]!r}")
    if len({*names}) < len(names):
        raise ValueError("a run occurs twice")
    return table
