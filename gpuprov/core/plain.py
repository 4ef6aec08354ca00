"""Dataclasses as plain values, for JSON. `dataclasses.asdict` copies each leaf too, which takes most of its time."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any


def plain_fields(value: object) -> dict[str, Any]:
    """The fields of a frozen dataclass or shape by name, with those within it; other values are not copied."""
    of_shape = getattr(value, "__struct_fields__", None)
    names = of_shape or [field.name for field in fields(value)]  # type: ignore[arg-type]
    return {name: _plain(getattr(value, name)) for name in names}


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a field holds
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return plain_fields(value) if is_dataclass(value) or hasattr(value, "__struct_fields__") else value
