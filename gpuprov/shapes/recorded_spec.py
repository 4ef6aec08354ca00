"""The spec of a cluster that is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuprov.shapes.base import Document


class RecordedSpec(Document, frozen=True, kw_only=True, tag="gpuprov.spec/v1"):
    """The document of `gpuprov cluster spec --json`.

    Attributes:
        host: Name of the host.
        spec: What a file of `cluster up -f` may have (docs/spec.md), every key but `version`.
    """

    host: str
    spec: Mapping[str, Any]
