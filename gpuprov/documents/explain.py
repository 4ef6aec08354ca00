"""`explain`: entries of the catalogue."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.core.catalogue import Entry


def explain_document(entries: Iterable[Entry]) -> dict[str, Any]:
    """What fits, the best first; commands have words such as NODE where they leave something open."""
    return document("explain", entries=[_entry_document(entry) for entry in entries])


def _entry_document(entry: Entry) -> dict[str, Any]:
    advice = {"fix": entry.advise(), "fixes": {situation: entry.advise(situation) for situation in entry.fixes}}
    return {**asdict(replace(entry, fixes={})), **advice}
