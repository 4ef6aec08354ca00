"""The runtime as `gate up` copies it, with a lock and leases of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.machine.runtime_program import RuntimeProgram
from gpuprov.runtime.settings import Settings
from tests.unit.runtime.simulated import simulated_host

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.gate_policy import GatePolicy

_OWN_PLACES = """
    import pathlib
    from gpuprov.core import group_files
    from gpuprov.runtime import records

    group_files.LOCK_FOLDER = pathlib.Path({lock!r})
    records.FOLDER = pathlib.Path({leases!r})
    code = main(arguments)
    import gpuprov.gpu.observe  # where there is a driver; it has to go with what stands in for dataclasses
"""


def copy_runtime(
    folder: Path, *, gpus: int, runc: Path, rules: GatePolicy | None = None
) -> tuple[RuntimeProgram, Path]:
    """The program, and its library."""
    program = RuntimeProgram(folder=folder / "program")
    program.write(Settings(engines=(), simulation=simulated_host(gpus).document), runc=runc, rules=rules)
    (library,) = program.folder.glob("lib-*")
    start = library / "gpuprov/runtime/start.py"
    own = _OWN_PLACES.format(lock=str(folder / "lock"), leases=str(folder / "leases"))
    start.write_text(start.read_text().replace("    code = main(arguments)\n", own))
    return program, library
