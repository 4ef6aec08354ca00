"""Dataclasses as plain values, for JSON. `dataclasses.asdict` copies each leaf too, which takes most of its time."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any


def plain_fields(value: object) -> dict[str, Any]:
    """The fields of a frozen dataclass by name, with those of dataclasses within it; other values are not copied."""
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}  # type: ignore[arg-type]


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a field holds
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return plain_fields(value) if is_dataclass(value) else value
