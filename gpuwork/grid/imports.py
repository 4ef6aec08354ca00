"""What the code of a project imports first of all and this machine lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.shapes.faults import Fault
from gpuwork.packages import is_there, lacks
from gpuwork.project_imports import find_imports

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path


class LackedModule(Fault, frozen=True, kw_only=True):
    """A module that code of the project needs and this machine lacks."""

    module: str


def find_lacked(folder: Path, files: Collection[str], first: str) -> list[LackedModule]:
    """The modules that a run would fail to import, each once, with the line.

    Args:
        folder: Of the project.
        files: What belongs to it, relative to the folder.
        first: The file that is imported.
    """
    found = find_imports(folder, files, first.removesuffix(".py").replace("/", "."))
    return [
        LackedModule(file=file, line=line, message=f"imports {name}, which is not installed", module=name)
        for name, (file, line) in found.items()
        if not is_there(name)
    ]


def refuse_lacked(faults: Sequence[Fault]) -> None:
    """Refuse a machine that lacks modules of a project which has no other faults.

    Raises:
        HostLacks: With all of them, and the command that installs their packages.
    """
    lacked = [fault for fault in faults if isinstance(fault, LackedModule)]
    if lacked and len(lacked) == len(faults):
        raise lacks([fault.module for fault in lacked], [str(fault) for fault in lacked])
