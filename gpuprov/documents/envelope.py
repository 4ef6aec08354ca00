"""What every document has: an id, which names its schema (docs/documents.md), a version, and durations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.core.outcome import PhaseTiming

VERSION = 1


def document(name: str, /, **content: Any) -> dict[str, Any]:  # noqa: ANN401 - what a document tells
    """A document whose schema is docs/NAME.schema.json."""
    return {"schema": f"gpuprov.{name}/v1", **content}


def with_durations(content: Mapping[str, object], phases: Iterable[PhaseTiming]) -> dict[str, object]:
    """The one document of a run."""
    return {"version": VERSION, **content, "seconds": {phase.name: round(phase.seconds, 3) for phase in phases}}


def of_round(content: Mapping[str, object], at: str) -> dict[str, object]:
    """The document of one round of a watch."""
    return {"version": VERSION, "at": at, **content}
