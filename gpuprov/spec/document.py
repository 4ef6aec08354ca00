"""A YAML or JSON text as plain values that remember the line they stand on."""

from __future__ import annotations

import json
from typing import Final, cast

from gpuprov.shapes.faults import Fault
from gpuprov.shapes.values import Value
from gpuprov.shapes.written import Manner, read_yaml, word_as_yaml_1_1

SPEC: Final = "spec"
_MANNER = Manner(
    word=word_as_yaml_1_1, syntax="not YAML", twice="duplicate key, first used on line {first}",
    key="a key is not plain text", tag="the tag {tag} is not allowed",
)  # fmt: skip


def problem(where: str, value: Value | int | None, message: str, *, allowed: str = "") -> Fault:
    """A fault of a spec, with the line where one is known; without a key it is about the whole."""
    line = value.line if isinstance(value, Value) else value
    return Fault(file=SPEC, line=line, where=where, message=message, allowed=allowed)


def parse_json(text: str) -> Value:
    """Read a JSON text; raises ValueError where it is none."""
    return from_plain(json.loads(text))


def from_plain(plain: object) -> Value:
    """What `json.loads` gives, as Values."""
    if isinstance(plain, dict):
        return Value(content={str(key): from_plain(item) for key, item in plain.items()})
    if isinstance(plain, list):
        return Value(content=[from_plain(item) for item in plain])
    return Value(content=cast("bool | int | float | str | None", plain))


def parse_yaml(text: str) -> tuple[Value | None, list[Fault]]:
    """A YAML text; None where there is none (an empty file, or bad syntax), and everything that is wrong with it."""
    return read_yaml(text, file=SPEC, manner=_MANNER)
