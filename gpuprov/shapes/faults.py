"""Everything that is wrong with what a person wrote, by the types of the shape that it is to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from gpuprov.shapes.base import Record, Shape

_SHOWN = 60
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


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


def find_faults(kind: type[Shape], told: Mapping[str, Any], *, file: str) -> tuple[dict[str, Any], list[Fault]]:
    """The values that are right, by field, and a fault for each other one, each unknown key and each that lacks.

    Args:
        kind: What it is to be; `allowed` in the `extra` of a Meta says in words what a value may be.
        told: What was written, as JSON has it.
        file: Where.
    """
    known = _keys(kind)
    good: dict[str, Any] = {}
    faults = [_fault(shown(key), "is not known", ", ".join(sorted(known))) for key in told if key not in known]
    faults += [_fault(key, "is missing") for key in _needed(kind) if key not in told]
    types = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key, value in told.items():
        if key in types:
            found = [*_faults_of(types[key].type, value, key)]
            faults += found
            if not found:
                good[types[key].name] = msgspec.convert(value, types[key].type)
        elif key in known and value != kind.__struct_config__.tag:
            faults.append(_fault(key, f"is {shown(value)}", str(kind.__struct_config__.tag)))
    return good, [msgspec.structs.replace(fault, file=file) for fault in faults]


def shown(value: object) -> str:
    """A value in a message: printable, and not long; its type where Python does not write it, as a number too long."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):
        return type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _faults_of(kind: Any, value: object, where: str) -> Iterator[Fault]:  # noqa: ANN401 - a type
    """What is wrong with a value; each thing of its own within objects and lists."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        bare = _bare(kind)
        inner = [*_inner_faults(bare, value, where)]
        if inner:
            yield from inner
        elif isinstance(bare, type) and issubclass(bare, Shape) and isinstance(value, Mapping):
            yield _fault(where, str(error).partition(" - at `")[0])
        else:
            yield _fault(where, *_words(kind, value))


def _inner_faults(bare: Any, value: object, where: str) -> Iterator[Fault]:  # noqa: ANN401
    parts = get_args(bare)
    if isinstance(bare, type) and issubclass(bare, Shape) and isinstance(value, Mapping):
        for fault in find_faults(bare, value, file="")[1]:
            yield _fault(f"{where}.{fault.where}", fault.message, fault.allowed)
    elif isinstance(value, list) and parts:
        for number, item in enumerate(value):
            yield from _faults_of(parts[0], item, f"{where}[{number}]")
    elif isinstance(value, dict) and len(parts) > 1:
        for key, item in value.items():
            yield from _faults_of(parts[1], item, f"{where}.{key}")


def _keys(kind: type[Shape]) -> set[str]:
    tag = kind.__struct_config__.tag_field
    return {*kind.__struct_encode_fields__, *([tag] if tag else [])}


def _needed(kind: type[Shape]) -> list[str]:
    own = [field.encode_name for field in msgspec.structs.fields(kind) if field.required]
    return ["schema", "version", *own] if issubclass(kind, Record) else own


def _bare(kind: Any) -> Any:  # noqa: ANN401
    """A type without its limits, and without null."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        others = [part for part in get_args(kind) if part not in (NoneType, msgspec.UnsetType)]
        return _bare(others[0]) if len(others) == 1 else kind
    return kind


def _words(kind: Any, value: object) -> tuple[str, str]:  # noqa: ANN401
    """What is wrong with a value, and what would be right."""
    limits = [*_limits(kind)]
    most = next((meta.max_length for meta in limits if meta.max_length is not None), None)
    if isinstance(value, (dict, list, str)) and most is not None and len(value) > most:
        things = "characters" if isinstance(value, str) else "items"
        return f"has {len(value):,} {things}", f"at most {most:,}"
    return f"is {shown(value)}", _allowed(_bare(kind), limits)


def _limits(kind: Any) -> Iterator[Meta]:  # noqa: ANN401
    for part in get_args(kind) if get_origin(kind) in (Annotated, Union, UnionType) else ():
        if isinstance(part, Meta):
            yield part
        else:
            yield from _limits(part)


def _allowed(bare: Any, limits: list[Meta]) -> str:  # noqa: ANN401
    told = [str(meta.extra["allowed"]) for meta in limits if meta.extra and "allowed" in meta.extra]
    if told:
        return told[-1]
    for meta in limits:
        if meta.ge is not None:
            return f"{meta.ge:,} to {meta.le:,}" if meta.le is not None else f"{meta.ge:,} or more"
    if get_origin(bare) is Literal:
        return ", ".join(map(str, get_args(bare)))
    return _WORDS.get(bare, "")


def _fault(where: str, message: str, allowed: str = "") -> Fault:
    place = where if where.isprintable() else shown(where)
    return Fault(file="", where=place, message=message, allowed=allowed)
