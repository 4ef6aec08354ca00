"""When the command of a job ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class JobTimes:
    """When the command of a job ran, as far as its engine remembers.

    Attributes:
        id: The engine's own for this very job; another one of the same name has another.
        name: Of its node.
        marks: A moment in seconds since 1970, and whether the command began then, or else ended; in no order, and
            what the engine says in two ways is there twice.
        there: Whether the job still exists.
        running: Whether its command runs.
    """

    id: str
    name: str
    labels: Mapping[str, str]
    marks: tuple[tuple[float, bool], ...]
    there: bool
    running: bool
