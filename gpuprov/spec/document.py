"""A YAML or JSON text as plain values that remember the line they stand on."""

from __future__ import annotations

import json
from typing import cast

from gpuprov.core.errors import Problem
from gpuprov.shapes.written import Manner, Value, read_yaml, word_as_yaml_1_1

WHOLE = "spec"  # the path of a problem with the document as a whole
_MANNER = Manner(
    word=word_as_yaml_1_1, syntax="not YAML", twice="duplicate key, first used on line {first}",
    key="a key is not plain text", tag="the tag {tag} is not allowed",
)  # fmt: skip


def problem(path: str, value: Value | int | None, message: str, *, allowed: str = "") -> Problem:
    """A Problem that begins with the line, where one is known."""
    line = value.line if isinstance(value, Value) else value
    return Problem(path=path, message=f"line {line}: {message}" if line is not None else message, allowed=allowed)


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


def parse_yaml(text: str) -> tuple[Value | None, list[Problem]]:
    """Read a YAML text strictly.

    Returns:
        The document, None where there is none (an empty file, or bad syntax), and every problem found.
    """
    value, faults = read_yaml(text, file=WHOLE, manner=_MANNER)
    return value, [problem(fault.where or WHOLE, fault.line, fault.message) for fault in faults]
