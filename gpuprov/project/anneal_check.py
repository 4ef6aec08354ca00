"""Everything that is wrong with models and configurations, found on this host before anything is copied.

Nothing of a model is executed. The rules are those of `gpuwork.anneal`, which judges the copy in a node again.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import first_lines
from gpuprov.project.order_check import ask_here
from gpuprov.shapes.anneal import AnnealChecked
from gpuprov.shapes.base import read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.spec.anneal_order import AnnealOrder

_SHOWN: Final = 50


def check_anneal(
    order: AnnealOrder,
    *,
    to_run: bool = False,
    here: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> None:
    """Refuse models and configurations that have faults.

    Args:
        order: What is to be annealed.
        to_run: Whether settings that only a run needs must be there.
        here: The environment of the run, if that is to be on this machine.

    Raises:
        UsageError: With every fault.
        HostNotReady: The program does not run here, or this machine lacks packages for the run.
        TimedOut: They could not be looked through in time.
    """
    more = (*(("--to-run",) if to_run else ()), *(("--here",) if here is not None else ()))
    argv = ("-m", "gpuwork.anneal", "check", "--json", *more, *order.here)
    faults = read(AnnealChecked, ask_here(argv, python=python, environment=here)).faults
    if not faults:
        return
    lines = [*map(str, faults)]
    what = "a fault" if len(lines) == 1 else f"{len(lines)} faults"
    raise UsageError(
        f"{what} in the models and configurations; nothing was executed",
        evidence=first_lines(lines, _SHOWN),
        fix="correct these files; docs/anneal.md describes models and configurations",
    )
