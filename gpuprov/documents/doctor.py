"""`doctor`: what was found on the host, and what each role needs of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from gpuprov.host.examine import Examination


def doctor_document(seen: Examination, *, host: str) -> dict[str, Any]:
    """An examination of the host."""
    return document(
        "doctor",
        host=host,
        findings=[asdict(finding) for finding in seen.findings],
        roles=[asdict(need) for need in seen.needs],
    )
