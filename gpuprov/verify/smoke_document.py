"""The document that the smoke kernels print in a node."""

from __future__ import annotations

import json
from typing import Any

KERNELS = ("matmul", "anneal", "membw")
SCHEMA = "gpuprov.smoke/v1"


def read_document(facts: Any) -> dict[str, Any] | None:  # noqa: ANN401 - what the probe gathered
    """The smoke kernels' own document, or None where they printed none."""
    try:
        document = json.loads(facts["stdout"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return None
    return document
