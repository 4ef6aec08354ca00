"""Values into the frozen dataclasses of spec.models: their type hints are the schema, and there is no other."""

from __future__ import annotations

import dataclasses
import difflib
import types
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from gpuprov.core.redact import hide_secrets
from gpuprov.spec.document import problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.shapes.faults import Fault
    from gpuprov.shapes.values import Value

T = TypeVar("T")
_GUESSED = 20  # problems, after which nobody is told what may be meant
_LONGEST_GUESSED = 64  # characters
_LOOKED_AT = 3000  # characters, for a password that is in the wrong place
_NAMES: dict[object, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    types.NoneType: "null",
}


class Decoder:
    """Reads Values as dataclasses and keeps every problem.

    Attributes:
        problems: All that was wrong so far.
        lines: Line of every value that was read, by its path (`nodes.count`).
        broken: Paths whose value could not be used; their default stands in.
    """

    def __init__(self) -> None:
        self.problems: list[Fault] = []
        self.lines: dict[str, int | None] = {}
        self.broken: set[str] = set()

    def decode(self, cls: type[T], value: Value, path: str = "") -> T | None:
        """Read a mapping as `cls`; None where it cannot be made. Keys that are left out take their defaults."""
        if not isinstance(value.content, dict):
            self._wrong(path, value, f"is {_describe(value)}", "a mapping of keys")
            return None
        hints = _hints(cls)  # type: ignore[arg-type]
        fields: dict[str, Any] = {}
        for key, item in value.content.items():
            at = f"{path}.{key}" if path else key
            if key not in hints:
                self._wrong(at, item, f"unknown key{self._guess(key, hints)}", ", ".join(hints))
                continue
            read = self._read(hints[key], item, at)
            if read is not _BAD:
                fields[key] = read
        return self._build(cls, fields, value, path)

    def _guess(self, key: str, known: Iterable[str]) -> str:
        """Which key may be meant; of a document with many problems, or with long keys, that would take seconds."""
        if len(self.problems) >= _GUESSED or len(key) > _LONGEST_GUESSED:
            return ""
        close = difflib.get_close_matches(key, known, n=1)
        return f"; did you mean {close[0]}?" if close else ""

    def _build(self, cls: type[T], fields: dict[str, Any], value: Value, path: str) -> T | None:
        needed = [
            item.name
            for item in dataclasses.fields(cls)  # type: ignore[arg-type]
            if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        ]
        given = value.content if isinstance(value.content, dict) else {}
        for name in needed:
            if name not in given:
                self._wrong(f"{path}.{name}" if path else name, value, "is required but missing", "")
        if any(name not in fields for name in needed):
            return None
        return cls(**fields)

    def _read(self, hint: object, value: Value, path: str) -> object:
        self.lines[path] = value.line
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            made = self.decode(hint, value, path)
            return _BAD if made is None else made
        if get_origin(hint) is tuple:
            return self._read_list(get_args(hint)[0], value, path)
        if not _fits(hint, value.content):
            self._wrong(path, value, f"is {_describe(value)}", _allowed(hint))
            return _BAD
        return value.content

    def _read_list(self, hint: object, value: Value, path: str) -> object:
        if not isinstance(value.content, list):
            self._wrong(path, value, f"is {_describe(value)}", "a list")
            return _BAD
        items = [self._read(hint, item, f"{path}[{index}]") for index, item in enumerate(value.content)]
        return tuple(item for item in items if item is not _BAD)

    def _wrong(self, path: str, value: Value, message: str, allowed: str) -> None:
        if path in self.broken:
            return  # its syntax was refused already
        self.broken.add(path)
        self.problems.append(problem(path, value, message, allowed=allowed))


_BAD = object()


@cache
def _hints(cls: type) -> dict[str, Any]:
    """A class's type hints; to evaluate them takes longer than all the rest of reading a spec."""
    return get_type_hints(cls)


def _fits(hint: object, content: object) -> bool:
    if get_origin(hint) is Literal:
        return isinstance(content, str) and content in get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return any(_fits(member, content) for member in get_args(hint))
    # bool is an int to Python, and `count: yes` must not mean 1.
    return type(content) is hint


def _allowed(hint: object) -> str:
    if get_origin(hint) is Literal:
        return ", ".join(get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_allowed(member) for member in get_args(hint))
    return _NAMES[hint]


def _describe(value: Value) -> str:
    content = value.content
    if isinstance(content, dict):
        return "a mapping"
    if isinstance(content, list):
        return "a list"
    if content is None:
        return "empty"
    if isinstance(content, bool):
        return f"{str(content).lower()} (use quotes if it is text)"
    if isinstance(content, str):
        return f"the text {hide_secrets(content[:_LOOKED_AT])[:60]!r}"
    return f"the number {str(content)[:60]}"
