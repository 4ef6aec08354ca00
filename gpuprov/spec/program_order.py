"""What `program run` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ProgramOrder:
    """A run of a CUDA program, not checked yet (project/program_check.py).

    Attributes:
        program: The folder.
        data: A CSV file; None for none.
        settings: As the user wrote them, NAME=VALUE each.
        workers: How many; None for one on each GPU.
    """

    program: Path
    data: Path | None = None
    settings: tuple[str, ...] = ()
    workers: int | None = None

    @property
    def choice(self) -> tuple[str, ...]:
        """The options of gpuwork.programs that hold the settings."""
        return tuple(word for setting in self.settings for word in ("--set", setting))
