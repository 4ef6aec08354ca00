"""What a program in a node answers: a JSON document, or an error of its own, read strictly.

Root in the node can say anything in its place.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Accepts = Callable[[object], bool]

ERROR: Final = "gpuprov.error/v1"
_HALF: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Complaint:
    """An error of the program's, in its own words."""

    what: str
    evidence: str
    fix: str
    exit_code: int


def parse_program_answer(text: str) -> dict[str, Any]:
    """The document of an answer; raises ValueError where it is none."""

    def refuse(name: str) -> float:
        raise ValueError(f"{name} is not JSON")

    try:
        told = json.loads(text, object_pairs_hook=_unique, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(told, dict) or type(told.get("version")) is not int or told["version"] != 1:
        raise ValueError("it is not a document of version 1")
    return told


def read_complaint(told: Mapping[str, Any]) -> Complaint | None:
    """The error that an answer is; None where it is none. Raises ValueError for a wrong one."""
    if told.get("schema") != ERROR:
        return None
    (error,) = fields_of(told, ERROR, {"error": lambda value: isinstance(value, dict)})
    texts = {name: text_of(100_000) for name in ("what", "evidence", "fix")}
    what, evidence, fix, code = pick(error, {**texts, "exit_code": number_in(1, 255)})
    return Complaint(what=what, evidence=evidence, fix=fix, exit_code=code)


def _unique(found: list[tuple[str, Any]]) -> dict[str, Any]:
    told = dict(found)
    if len(told) < len(found):
        raise ValueError("it has a key twice")
    return told


def fields_of(told: Mapping[str, Any], schema: str, kinds: Mapping[str, Accepts]) -> list[Any]:
    """The values of a document of that schema that has these keys and no others."""
    if told.get("schema") != schema:
        raise ValueError(f"its schema is not {schema}")
    return pick({name: told[name] for name in told if name not in ("schema", "version")}, kinds)


def pick(told: object, kinds: Mapping[str, Accepts]) -> list[Any]:
    """The values of an object that has these keys and no others, each of its kind."""
    if not isinstance(told, dict) or told.keys() != kinds.keys():
        raise ValueError(f"an object has other keys than {', '.join(kinds)}")
    wrong = [name for name, is_right in kinds.items() if not is_right(told[name])]
    if wrong:
        raise ValueError(f"{wrong[0]} is {str(told[wrong[0]])[:100]!r}")
    return [told[name] for name in kinds]


def is_string(value: object) -> bool:
    """A string without halves of characters, which could not be shown."""
    return isinstance(value, str) and (value.isascii() or _HALF.search(value) is None)


def text_of(most: int) -> Accepts:
    """A text of so many characters at most."""
    return lambda value: is_string(value) and len(cast("str", value)) <= most


def matches(pattern: re.Pattern[str]) -> Accepts:
    """A text that a pattern describes as a whole."""
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def number_in(low: int, high: int) -> Accepts:
    """A whole number in this range."""
    return lambda value: type(value) is int and low <= value <= high


def or_none(kind: Accepts) -> Accepts:
    """Null, or a value of this kind."""
    return lambda value: value is None or kind(value)


def items_of(kind: Accepts) -> Accepts:
    """A list of such values."""
    return lambda value: isinstance(value, list) and all(map(kind, value))


def is_list(value: object) -> bool:
    """Any list."""
    return isinstance(value, list)


def is_bool(value: object) -> bool:
    """True or false."""
    return isinstance(value, bool)
