"""JSON in an engine's labels, which anybody with access to the engine can damage: read without an error."""

from __future__ import annotations

import json
from typing import Any


def read_object(text: str | None) -> dict[str, Any]:
    """A JSON object; an empty one for anything else."""
    try:
        document: object = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def read_texts(text: str | None) -> dict[str, str]:
    """The members of a JSON object that are text."""
    return only_texts(read_object(text))


def only_texts(document: dict[str, Any]) -> dict[str, str]:
    """The members that are text."""
    return {key: value for key, value in document.items() if isinstance(value, str)}
