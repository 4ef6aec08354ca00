"""JSON that is exactly as it has to be: no key too few or too many, none twice, and each value of its kind."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from gpuwork.errors import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Kind = Callable[[object], bool]

_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def parse_strict_json(content: bytes | str) -> object:
    """A JSON document; raises ValueError for one with a key twice, with NaN, or too deep."""

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        told: dict[str, object] = {}
        for key, value in found:
            if key in told:
                raise ValueError(f"has a key twice: {key[:100]}")
            told[key] = value
        return told

    def constant(name: str) -> float:
        raise ValueError(f"has {name}, which is not JSON")

    def number(text: str) -> float:
        if not math.isfinite(found := float(text)):
            raise ValueError(f"has {text[:100]}, which is too large")
        return found

    try:
        return json.loads(content, object_pairs_hook=pairs, parse_constant=constant, parse_float=number)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def read_fields(told: object, fields: Mapping[str, Kind]) -> dict[str, Any]:
    """An object that has these keys and no others, each with a value of its kind; raises ValueError for any other."""
    if not isinstance(told, dict) or told.keys() != fields.keys():
        raise ValueError(f"is not an object with the keys {', '.join(fields)}")
    for name, is_right in fields.items():
        if not is_right(told[name]):
            raise ValueError(f"{name} is {shown(told[name], 100)}")
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


def listing(kind: Kind, *, most: int | None = None) -> Kind:
    """A list of such values, of so many at most."""
    return lambda value: isinstance(value, list) and (most is None or len(value) <= most) and all(map(kind, value))


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
