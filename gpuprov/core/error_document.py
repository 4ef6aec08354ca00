"""An error for programs. It is in core because a host that has Python alone says its errors so too (gpu/facts.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.errors import GpuprovError

SCHEMA = "gpuprov.error/v1"


def error_parts(error: GpuprovError) -> dict[str, Any]:
    """The three parts, and the exit code."""
    return {"what": error.what, "evidence": error.evidence, "fix": error.fix, "exit_code": error.exit_code}


def error_document(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a run that has nothing but its error to tell."""
    return {"schema": SCHEMA, "version": 1, "error": dict(parts)}
