"""An error, as a program tells it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gpuprov.shapes.base import Document, Shape

Part = Annotated[str, Meta(max_length=100_000)]


class ErrorParts(Shape, frozen=True, kw_only=True):
    """What failed, why, and what helps.

    Attributes:
        what: What failed.
        evidence: The words of whoever refused.
        fix: The next command to type.
        exit_code: docs/commands.md lists them.
    """

    what: Annotated[str, Meta(min_length=1, max_length=100_000)]
    evidence: Part
    fix: Part
    exit_code: Annotated[int, Meta(ge=1, le=255)]


class Error(Document, frozen=True, kw_only=True, tag="gpuprov.error/v1"):
    """What every verb that fails prints with `--json`, and every program in a node."""

    error: ErrorParts
