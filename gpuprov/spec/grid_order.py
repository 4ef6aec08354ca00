"""What `grid run` is asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.shapes.limits import FREE_NAME

if TYPE_CHECKING:
    from gpuprov.shapes.faults import Fault

_NAME: Final = re.compile(FREE_NAME, re.ASCII)


def check_project_name(name: str) -> str:
    """Return the name of a project's folder, by which a cluster knows it.

    Raises:
        UsageError: A cluster cannot know it by that name.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"a cluster cannot store a grid with the name {excerpt(repr(name), 80)}",
            evidence="a grid has the name of the project's folder: letters, digits, . _ and -, 64 at most",
            fix="rename the folder, or run the grid on this machine: gpuprov grid run PROJECT --local",
        )
    return name


@dataclass(frozen=True, kw_only=True)
class GridOrder:
    """Which runs of a project there are to be, not checked yet (project/grid_check.py).

    Attributes:
        reps: How many good runs of each combination.
        minimal: One run, of the defaults and what is for debugging.
        first_only: Only the first combination.
        faults: What is wrong with other options; told with the faults of the project.
    """

    reps: int = 1
    minimal: bool = False
    first_only: bool = False
    faults: tuple[Fault, ...] = ()

    @property
    def choice(self) -> tuple[str, ...]:
        """The options of gpuwork.grid that choose combinations."""
        chosen = {"--minimal": self.minimal, "--first-only": self.first_only}
        return tuple(option for option, wanted in chosen.items() if wanted)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The same with how often each is to run."""
        return ("--reps", str(self.reps), *self.choice)
