"""JSON that is exactly as it has to be: no key too few or too many, none twice, and each value of its kind."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Kind = Callable[[object], bool]

_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def parse_strict_json(content: bytes | str) -> object:
    """A JSON document; raises ValueError for one with a key twice, with NaN, or too deep."""

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        keys = [key for key, _ in found]
        twice = sorted({key for key in keys if keys.count(key) > 1}) if len(set(keys)) < len(keys) else []
        if twice:
            raise ValueError(f"has a key twice: {twice[0][:100]}")
        return dict(found)

    def constant(name: str) -> float:
        raise ValueError(f"has {name}, which is not JSON")

    try:
        return json.loads(content, object_pairs_hook=pairs, parse_constant=constant)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def read_fields(told: object, fields: Mapping[str, Kind]) -> dict[str, Any]:
    """An object that has these keys and no others, each with a value of its kind; raises ValueError for any other."""
    if not isinstance(told, dict) or told.keys() != fields.keys():
        raise ValueError(f"is not an object with the keys {', '.join(fields)}")
    for name, is_right in fields.items():
        if not is_right(told[name]):
            raise ValueError(f"{name} is {str(told[name])[:100]!r}")
    return told


def exactly(*values: object) -> Kind:
    """One of these values."""
    return lambda value: any(value == known and type(value) is type(known) for known in values)


def whole(low: int, high: int) -> Kind:
    """A whole number in this range."""
    return lambda value: type(value) is int and low <= value <= high


def optional(kind: Kind) -> Kind:
    """Null, or a value of this kind."""
    return lambda value: value is None or kind(value)


def listing(kind: Kind) -> Kind:
    """A list of such values."""
    return lambda value: isinstance(value, list) and all(map(kind, value))


def matching(pattern: str) -> Kind:
    """A string that a pattern describes as a whole."""
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


def is_text(value: object) -> bool:
    """A string that can be written as UTF-8."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def is_flag(value: object) -> bool:
    """True or false."""
    return isinstance(value, bool)


def is_moment(value: object) -> bool:
    """A time in UTC, to the second."""
    return isinstance(value, str) and _MOMENT.fullmatch(value) is not None
