"""Everything that is wrong with a CUDA program and its data, found on this host before anything is copied.

The rules are those of `gpuwork.programs`, which judges the copy in a node again.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from gpuprov.core.printable import printable
from gpuprov.project.order_check import ask_here, refuse_faults
from gpuprov.shapes.base import read
from gpuprov.shapes.programs import ProgramChecked

if TYPE_CHECKING:
    from gpuprov.shapes.programs import SoundProgram
    from gpuprov.spec.program_order import ProgramOrder

LIMIT_S: Final = 1800.0  # some GiB of CSV


def check_program(order: ProgramOrder, *, python: str = sys.executable) -> tuple[ProgramChecked, SoundProgram]:
    """What is known of a program and its data, and what names it.

    Raises:
        UsageError: With every fault of both.
        HostNotReady: The program for this does not run here.
        TimedOut: They could not be looked through in time.
    """
    data = () if order.data is None else ("--data", str(order.data))
    argv = ("-m", "gpuwork.programs", "check", str(order.program), *order.choice, *data)
    told = read(ProgramChecked, ask_here(argv, python=python, limit_s=LIMIT_S))
    if told.faults or told.program is None:
        shown = printable(str(order.program), lines=False)
        raise refuse_faults(told.faults, fix=f"correct {shown}; docs/programs.md describes a program")
    return told, told.program
