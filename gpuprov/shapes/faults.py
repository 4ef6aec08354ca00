"""Everything that is wrong with what a person wrote, by the types of the shape that it is to be."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta

from gpuprov.shapes.base import Record, Shape, learn
from gpuprov.shapes.values import Value

_SHOWN: Final = 60  # characters
_HIDDEN_IN: Final = 3000  # characters, in which a password in the wrong place is looked for
_GUESSED: Final = 20  # faults, after which nobody is told what may be meant: of thousands of keys it would take seconds
_LONGEST_GUESSED: Final = 64  # characters
_WORDS: Final[dict[Any, str]] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "null",
}  # fmt: skip
_BAD: Final = object()
Written: TypeAlias = "Mapping[str, Any] | Value"


class Fault(Shape, frozen=True, kw_only=True):
    """One thing that is wrong: where it is, what it is, and what is allowed there.

    Attributes:
        file: Of the project, relative to it, or what was handed in, such as `order`.
        line: Counted from 1; null where the fault has none.
        where: The key or the name that it is about; empty for the file as a whole.
        message: What is wrong.
        allowed: What would be right; may be empty.
    """

    file: str
    line: Annotated[int, Meta(ge=1)] | None = None
    where: str = ""
    message: Annotated[str, Meta(min_length=1)]
    allowed: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        name = f" {self.where}:" if self.where else ""
        tail = f" (allowed: {self.allowed})" if self.allowed else ""
        return f"{place}:{name} {self.message}{tail}"


def find_faults(
    kind: type[Shape], told: Written, *, file: str, hide: Callable[[str], str] = str
) -> tuple[dict[str, Any], list[Fault]]:
    """The values that are right, by field, and a fault for each other one, each unknown key and each that lacks.

    Of an object within it, and of a list of objects, what is right is kept likewise, if an object can be made of it.

    Args:
        kind: What it is to be; `allowed` in the `extra` of a Meta says in words what a value may be.
        told: What was written, as JSON has it; or with its lines, which faults then have.
        hide: Takes secrets out of a text before it is shown.
    """
    learn(kind)
    finder = _Finder(file, hide)
    return finder.fields(kind, told, ""), finder.faults


def shown(value: object) -> str:
    """A value in a message: printable, and not long; its type where Python does not write it, as a number too long."""
    if value is None or isinstance(value, (bool, list, tuple, Mapping)):
        return _kind_of(value)
    try:
        text = repr(value)
    except ValueError:
        return type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


class _Finder:
    """Reads what was written as shapes, and keeps all that is wrong with it."""

    def __init__(self, file: str, hide: Callable[[str], str]) -> None:
        self.faults: list[Fault] = []
        self._file = file
        self._hide = hide

    def fields(self, kind: type[Shape], told: Written, where: str) -> dict[str, Any]:
        """The fields that are right."""
        content = _content(told)
        if not isinstance(content, Mapping):
            self._fault(where, told, f"is {self._shown(content)}", _allowed(kind, []))
            return {}
        known, types = _keys(kind), {field.encode_name: field for field in msgspec.structs.fields(kind)}
        good: dict[str, Any] = {}
        for key, value in content.items():
            at = f"{where}.{key}" if where else key
            if key in types:
                found = self._value(types[key].type, value, at)
                if found is not _BAD:
                    good[types[key].name] = found
            elif key not in known:
                self._fault(at, value, f"is not known{self._guess(key, known)}", ", ".join(known))
            elif _content(value) != kind.__struct_config__.tag:
                self._fault(at, value, f"is {self._shown(_content(value))}", str(kind.__struct_config__.tag))
        for key, allowed in _needed(kind).items():
            if key not in content:
                self._fault(f"{where}.{key}" if where else key, told, "is missing", allowed)
        return good

    def _value(self, kind: Any, value: object, where: str) -> Any:  # noqa: ANN401 - a type
        """The value as its type has it, or as much of it as is right."""
        plain = value.plain if isinstance(value, Value) else value
        try:
            return msgspec.convert(plain, kind)
        except msgspec.ValidationError as error:
            words = str(error).partition(" - at `")[0]
        before, bare = len(self.faults), _bare(kind)
        kept = self._inner(bare, value, where)
        if len(self.faults) == before:
            if _is_shape(bare) and isinstance(plain, Mapping):
                self._fault(where, value, words)
            else:
                self._fault(where, value, *self._words(kind, plain))
        return kept

    def _inner(self, bare: Any, value: object, where: str) -> Any:  # noqa: ANN401
        """What is right within an object or a list."""
        content, parts = _content(value), get_args(bare)
        if _is_shape(bare) and isinstance(content, Mapping):
            good = self.fields(bare, cast("Written", value), where)
            lacks = any(field.required and field.name not in good for field in msgspec.structs.fields(bare))
            return _BAD if lacks else bare(**good)
        if isinstance(content, list) and parts and _is_made_of(bare, Sequence):
            items = [self._value(parts[0], item, f"{where}[{number}]") for number, item in enumerate(content)]
            if _is_shape(_bare(parts[0])):
                return tuple(item for item in items if item is not _BAD)
        elif isinstance(content, dict) and len(parts) > 1 and _is_made_of(bare, Mapping):
            for key, item in content.items():
                self._value(parts[1], item, f"{where}.{key}")
        return _BAD

    def _words(self, kind: Any, plain: object) -> tuple[str, str]:  # noqa: ANN401
        """What is wrong with a value, and what would be right."""
        limits = [*_limits(kind)]
        most = next((meta.max_length for meta in limits if meta.max_length is not None), None)
        if isinstance(plain, (dict, list, str)) and most is not None and len(plain) > most:
            things = "characters" if isinstance(plain, str) else "items"
            return f"has {len(plain):,} {things}", f"at most {most:,}"
        quotes = isinstance(plain, (bool, int, float)) and str in _choices(kind)
        allowed, bare = _allowed(kind, limits), _bare(kind)
        if bare in (int, float) and not _is_number(plain, bare) and not allowed.startswith("a "):
            allowed = f"{_WORDS[bare]}, {allowed}{', or null' if NoneType in _choices(kind) else ''}"
        return f"is {self._shown(plain)}{' (use quotes if it is text)' if quotes else ''}", allowed

    def _shown(self, plain: object) -> str:
        return shown(self._hide(plain[:_HIDDEN_IN]) if isinstance(plain, str) else plain)

    def _guess(self, key: str, known: list[str]) -> str:
        if len(self.faults) >= _GUESSED or len(key) > _LONGEST_GUESSED:
            return ""
        close = difflib.get_close_matches(key, known, n=1)
        return f"; did you mean {close[0]}?" if close else ""

    def _fault(self, where: str, value: object, message: str, allowed: str = "") -> None:
        place = where if where.isprintable() else shown(where)
        line = value.line if isinstance(value, Value) else None
        self.faults.append(Fault(file=self._file, line=line, where=place, message=message, allowed=allowed))


def _content(value: object) -> object:
    return value.content if isinstance(value, Value) else value


def _kind_of(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "empty" if value is None else str(value).lower()
    return "a mapping" if isinstance(value, Mapping) else "a list"


def _keys(kind: type[Shape]) -> list[str]:
    tag = kind.__struct_config__.tag_field
    return [*([tag] if tag else []), *kind.__struct_encode_fields__]


def _needed(kind: type[Shape]) -> dict[str, str]:
    """The keys that must be there, with what is allowed for them where that is one value."""
    config = kind.__struct_config__
    needed = {config.tag_field: str(config.tag)} if config.tag_field else {}
    if issubclass(kind, Record):
        needed["version"] = "1"
    return needed | {field.encode_name: "" for field in msgspec.structs.fields(kind) if field.required}


def _is_number(plain: object, wanted: type) -> bool:
    return type(plain) in ((int,) if wanted is int else (int, float))


def _is_made_of(bare: Any, family: type) -> bool:  # noqa: ANN401
    origin = get_origin(bare)
    return isinstance(origin, type) and issubclass(origin, family)


def _is_shape(bare: Any) -> bool:  # noqa: ANN401
    return isinstance(bare, type) and issubclass(bare, Shape)


def _bare(kind: Any) -> Any:  # noqa: ANN401
    """A type without its limits, and without null."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        others = [part for part in get_args(kind) if part not in (NoneType, msgspec.UnsetType)]
        return _bare(others[0]) if len(others) == 1 else kind
    return kind


def _choices(kind: Any) -> list[Any]:  # noqa: ANN401
    """The types of which a value may be one."""
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if get_origin(bare) in (Union, UnionType):
        return [one for part in get_args(bare) for one in _choices(part)]
    return [] if bare is msgspec.UnsetType else [bare]


def _limits(kind: Any) -> Iterator[Meta]:  # noqa: ANN401
    for part in get_args(kind) if get_origin(kind) in (Annotated, Union, UnionType) else ():
        if isinstance(part, Meta):
            yield part
        else:
            yield from _limits(part)


def _allowed(kind: Any, limits: list[Meta]) -> str:  # noqa: ANN401
    told = [str(meta.extra["allowed"]) for meta in limits if meta.extra and "allowed" in meta.extra]
    if told:
        return told[-1]
    for meta in limits:
        if meta.ge is not None:
            return f"{meta.ge:,} to {meta.le:,}" if meta.le is not None else f"{meta.ge:,} or more"
    return " or ".join(filter(None, map(_name, _choices(kind))))


def _name(bare: Any) -> str:  # noqa: ANN401
    if get_origin(bare) is Literal:
        return ", ".join(map(str, get_args(bare)))
    if get_origin(bare) is tuple:
        return "a list"
    return "a mapping of keys" if _is_shape(bare) or isinstance(get_origin(bare), type) else _WORDS.get(bare, "")
