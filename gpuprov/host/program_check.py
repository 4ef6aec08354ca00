"""Everything that is wrong with a CUDA program and its data, found on this host before anything is copied.

The rules are those of `gpuwork.programs`, which judges the copy in a node again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.printable import printable
from gpuprov.host.order_check import ask_here, refuse_faults
from gpuprov.shapes.base import read
from gpuprov.shapes.faults import Fault

if TYPE_CHECKING:
    from gpuprov.spec.program_order import ProgramOrder

LIMIT_S: Final = 1800.0  # some GiB of CSV


@dataclass(frozen=True, kw_only=True)
class CheckedProgram:
    """A program without faults.

    Attributes:
        files: That belong to it, relative to its folder.
        hash: Names it.
        name: Of the program.
        version: Of the program.
        rows: Of the data; None without.
        left_out: What could not be checked on this host, and why.
    """

    files: tuple[str, ...]
    hash: str
    name: str
    version: str
    rows: int | None
    left_out: tuple[str, ...]


def check_program(order: ProgramOrder, *, python: str = sys.executable) -> CheckedProgram:
    """A program and its data.

    Raises:
        UsageError: With every fault of both.
        HostNotReady: The program for this does not run here.
        TimedOut: They could not be looked through in time.
    """
    data = () if order.data is None else ("--data", str(order.data))
    argv = ("-m", "gpuwork.programs", "check", str(order.program), *order.choice, *data)
    told = ask_here(argv, python=python, limit_s=LIMIT_S)
    if told["faults"]:
        shown = printable(str(order.program), lines=False)
        faults = [read(Fault, fault) for fault in told["faults"]]
        raise refuse_faults(faults, fix=f"correct {shown}; docs/programs.md describes a program")
    program, table = told["program"], told["table"]
    return CheckedProgram(
        files=tuple(told["files"]),
        hash=program["hash"],
        name=program["name"],
        version=program["version"],
        rows=table["rows"] if table else None,
        left_out=tuple(told["left_out"]),
    )
