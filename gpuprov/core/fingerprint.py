"""One stable hash of a document, to tell whether what is there is what is asked; and dataclasses as such documents."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

SHORT_LENGTH = 12


def fingerprint(document: object) -> str:
    """Hash a JSON-able document: 64 hexadecimal digits, whatever the order of its keys.

    Raises:
        TypeError: It holds something JSON has no form for.
        ValueError: It holds NaN or an infinity.
    """
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def short(digest: str) -> str:
    """The first 12 digits, for names."""
    return digest[:SHORT_LENGTH]


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
