"""Everything that is wrong with a grid and its project, found on this host before anything is copied.

The rules are those of `gpuwork.grid`, which judges the copy in a node again.
"""

from __future__ import annotations

import sys
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from gpuprov.core.printable import printable
from gpuprov.project.order_check import ask_here, check_order, refuse_faults
from gpuprov.shapes.base import changed, read
from gpuprov.shapes.faults import Fault
from gpuprov.shapes.grids import GridChecked
from gpuprov.shapes.limits import MOST_RUNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpuprov.shapes.job_order import JobOrder
    from gpuprov.spec.grid_order import GridOrder

_PARAMETERS: Final = ("params.py", "grid.yaml")
_DEEPEST: Final = 2
_SPARE: Final = "python3"  # stands for the command of runs that are not known yet


def check_grid(
    order: GridOrder,
    project: Path,
    jobs: JobOrder | None,
    *,
    here: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> GridChecked:
    """What a project asks for.

    Args:
        order: What of it.
        project: Its folder.
        jobs: What its runs get, without their command; None if they are not to be submitted.
        here: The environment of its runs, if they are to be on this machine.
        python: The interpreter.

    Raises:
        UsageError: With every fault of the project and of what is asked for.
        HostNotReady: The program does not run here, or this machine lacks modules for the runs.
        TimedOut: The project could not be looked through in time.
    """
    more = () if here is None else ("--here",)
    argv = ("-m", "gpuwork.grid", "check", str(project), *order.choice, *more)
    checked = read(GridChecked, ask_here(argv, python=python, environment=here))
    faults = (*order.faults, *checked.faults)
    if jobs is not None:
        faults = (*check_order(changed(jobs, command=(_SPARE,), count=1), None, python=python).faults, *faults)
    faults = (*_reps_faults(order, len(checked.combinations or ())), *faults)
    if faults:
        of_project = any(fault.file != "order" for fault in faults)
        shown = printable(str(project), lines=False)
        fix = f"correct the project {shown}; docs/grids.md describes what it consists of"
        raise refuse_faults(faults, fix=fix if of_project else "gpuprov grid run --help")
    return checked


def job_module(files: Sequence[str]) -> str:
    """The module with `main` of a project without faults: it is beside the file of parameters."""
    paths = map(PurePosixPath, files)
    beside = next(path.parent for path in paths if path.name in _PARAMETERS and len(path.parts) <= _DEEPEST)
    return ".".join((*beside.parts, "job"))


def _reps_faults(order: GridOrder, combinations: int) -> list[Fault]:
    most = MOST_RUNS // max(1, combinations)
    if 1 <= order.reps <= most:
        return []
    message = f"is {order.reps}" + (f", for {combinations:,} combinations" if combinations > 1 else "")
    return [Fault(file="order", where="reps", message=message, allowed=f"1 to {most:,}")]
