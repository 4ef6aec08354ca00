"""The values that parameters may have, and the one spelling by which equal values are recognised."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from gpuprov.shapes.limits import DEEPEST

if TYPE_CHECKING:
    from collections.abc import Mapping

ParameterValue: TypeAlias = "bool | int | float | str | tuple[ParameterValue, ...] | None"
ALLOWED: Final = "a number, a string, True, False, None, or a tuple of these"
RESERVED: Final = ("param_name", "job_name", "project_path", "save_path")
_NAME: Final = re.compile(r"(?!run\.|last\.)[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_MOST_CHARACTERS: Final = 4096
_MOST_DIGITS: Final = 64


@dataclass(frozen=True)
class Foreign:
    """Stands for something that no parameter may be; `kind` says what it is, with its article."""

    kind: str


def name_fault(name: str) -> str:
    """Why a parameter cannot be called so, or ""."""
    if name in RESERVED:
        return "is a reserved name"
    if not _NAME.fullmatch(name):
        return "is not a valid parameter name"
    return ""


def value_fault(value: object, *, depth: int = 0) -> str:
    """Why a parameter cannot have this value, or ""."""
    if isinstance(value, tuple) and depth < DEEPEST:
        return next(filter(None, (value_fault(item, depth=depth + 1) for item in value)), "")
    if isinstance(value, (tuple, list, dict, Foreign)):
        kind = value.kind if isinstance(value, Foreign) else f"a {type(value).__name__}"
        return f"{'holds' if depth else 'is'} {kind}"
    return _scalar_fault(value)


def _scalar_fault(value: object) -> str:
    if isinstance(value, float) and math.isnan(value):
        return "is not a number (NaN), which equals nothing, not even itself"
    if isinstance(value, str) and len(value) > _MOST_CHARACTERS:
        return f"is a string of {len(value)} characters; put it in a file"
    if isinstance(value, int) and abs(value) >= 10**_MOST_DIGITS:
        return f"has more than {_MOST_DIGITS} digits"
    known = value is None or isinstance(value, (bool, int, float, str))
    return "" if known else f"is an object of type {type(value).__name__}"


def as_value(plain: object) -> ParameterValue:
    """A value read from a file, where a tuple is written as a list."""
    if isinstance(plain, (list, tuple)):
        return tuple(as_value(item) for item in plain)
    if plain is None or isinstance(plain, (bool, int, float, str)):
        return plain
    raise TypeError(f"no value of a parameter: a {type(plain).__name__}")


def as_plain(value: ParameterValue) -> object:
    """A value as files have it: tuples as lists."""
    return [as_plain(item) for item in value] if isinstance(value, tuple) else value


def hash_values(values: Mapping[str, ParameterValue]) -> str:
    """Names the values, in whatever order they are written; 1, 1.0 and True are three values."""
    text = json.dumps({name: as_plain(value) for name, value in values.items()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def label(values: Mapping[str, ParameterValue], names: tuple[str, ...]) -> str:
    """Some of the values for a person, `lr=0.1 units=128`."""
    return " ".join(f"{name}={''.join(filter(str.isprintable, str(values[name])))[:60]}" for name in names)
