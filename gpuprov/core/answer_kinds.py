"""The kinds of values in what others answer, read strictly: root in a node can say anything in a program's place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Accepts = Callable[[object], bool]

_HALF: Final = re.compile("[\ud800-\udfff]")


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
