"""What every document has: an id, which names its schema (docs/documents.md), a version, and durations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.core.outcome import PhaseTiming
    from gpuprov.shapes.base import Shape

Shown = Union[Mapping[str, object], "Shape"]
VERSION = 1


def plain(content: Shown) -> Mapping[str, object]:
    """A document as JSON's values."""
    if isinstance(content, Mapping):
        return content
    from gpuprov.shapes.base import write

    return write(content)


def with_durations(content: Shown, phases: Iterable[PhaseTiming]) -> dict[str, object]:
    """The one document of a run."""
    return {"version": VERSION, **plain(content), "seconds": {phase.name: round(phase.seconds, 3) for phase in phases}}


def of_round(content: Shown, at: str) -> dict[str, object]:
    """The document of one round of a watch."""
    return {"version": VERSION, "at": at, **plain(content)}
