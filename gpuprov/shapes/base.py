"""What all shapes have in common, and how they are read and written.

A field without a default value of `UNSET` is always written, and must be there when it is read, whatever its default.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from threading import RLock
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, UnsetType

Kind = TypeVar("Kind", bound="Shape")
Told = Raw | Mapping[str, Any]
Version = Literal[1]
_LEARNING: Final = RLock()
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object with these keys and no others.

    Attributes:
        may_omit: Whether what has a default may be left out, as people write it, or earlier releases recorded it.
        now_and_then: Keys that are not always written, though they always have a value.
        held_to: What JSON Schema says of it besides its keys, and `__post_init__` holds it to.
    """

    may_omit: ClassVar[bool] = False
    now_and_then: ClassVar[frozenset[str]] = frozenset()
    held_to: ClassVar[Mapping[str, Any]] = {}


_LOOKED_INTO: Final = (Shape, list, tuple, dict, float)


class Record(Shape, frozen=True, kw_only=True, tag_field="schema"):
    """An object that names its schema, docs/NAME.schema.json for `gpuprov.NAME/v1`.

    Attributes:
        together: Keys by the key that is not there without them.
    """

    together: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    version: Version = 1


class Document(Record, frozen=True, kw_only=True):
    """A record that verbs print.

    Attributes:
        seconds: Phase to seconds; where a verb printed it.
        at: When it was seen, in UTC; in a line of a watch.
    """

    seconds: Mapping[str, float] | UnsetType = UNSET
    at: str | UnsetType = UNSET


class PartDocument(Document, frozen=True, kw_only=True):
    """A document that is a part of a bundle or of another one too, and has no version there."""

    version: Version | UnsetType = UNSET  # type: ignore[assignment]


def parse_json(content: bytes | str) -> object:
    """JSON; raises ValueError for a key that is there twice, NaN, a too large number, and half a character."""

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        told = dict(found)
        if len(told) < len(found):
            seen: set[str] = set()
            twice = next(key for key, _ in found if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise ValueError(f"has a key twice: {twice[:100]}")
        return told

    def constant(name: str) -> float:
        raise ValueError(f"has {name}, which is not JSON")

    def number(text: str) -> float:
        if not math.isfinite(found := float(text)):
            raise ValueError(f"has {text[:100]}, which is too large")
        return found

    raw = content.encode() if isinstance(content, str) else content
    try:
        told = json.loads(raw.decode(), object_pairs_hook=pairs, parse_constant=constant, parse_float=number)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if _HALF.search(raw):
        json.dumps(told, ensure_ascii=False).encode()
    return cast("object", told)


def read(kind: type[Kind], told: bytes | str | Told) -> Kind:
    """A shape of what was told; raises ValueError, with the path of what is wrong, for anything else.

    Args:
        told: JSON, or what was already parsed of it.
    """
    try:
        content = _parse(kind, told)
        learn(kind)
        value = msgspec.convert(content, kind)
        _require_all(value, content, "$")
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    return value


@cache
def learn(kind: type[Shape]) -> None:
    """Have msgspec find out what a kind is made of, before it converts to it.

    It does so when a kind is needed first, and the process is killed by SIGSEGV (msgspec 0.22) where a second thread
    needs the kind before it is done.
    """
    with _LEARNING:
        msgspec.json.Decoder(kind)


def _parse(kind: type[Shape], told: bytes | str | Told) -> object:
    """The values of what was told; what the kind keeps as text is not looked into."""
    kept = _kept(kind)
    if isinstance(told, Mapping):
        if not kept:
            return told
        told = msgspec.json.encode(told)
    content = told if isinstance(told, (bytes, str)) else bytes(told)
    if not kept:
        return parse_json(content)
    parts = msgspec.json.decode(content, type=dict[str, Raw])
    return {key: kept[key](part) if key in kept else parse_json(bytes(part)) for key, part in parts.items()}


@cache
def _kept(kind: type[Shape]) -> dict[str, Callable[[Raw], object]]:
    """What is made of each field that stays text, or holds some, for a reader of its own."""
    kept: dict[str, Callable[[Raw], object]] = {}
    for field in msgspec.structs.fields(kind):
        if field.type is Raw or (get_origin(field.type) is Annotated and get_args(field.type)[0] is Raw):
            kept[field.encode_name] = _as_it_is
        elif Raw in get_args(field.type):
            kept[field.encode_name] = partial(msgspec.json.decode, type=field.type)
    return kept


def _as_it_is(told: Raw) -> Raw:
    return told


def of_object(kind: type[Kind], value: object) -> Kind:
    """A shape of an object whose attributes have the names of its fields; what is told is not held to any limit."""
    return kind(**{name: getattr(value, name) for name in kind.__struct_fields__ if hasattr(value, name)})


def write(shape: Shape) -> dict[str, Any]:
    """The shape as JSON's values."""
    told: dict[str, Any] = json.loads(encode(shape))
    return told


def as_values(shape: Shape) -> dict[str, Any]:
    """The shape as plain values, bytes among them, for what carries these; `read` reads it."""
    told: dict[str, Any] = msgspec.to_builtins(shape, builtin_types=(bytes,), enc_hook=_plain)
    return told


def encode(shape: Shape) -> bytes:
    """The shape as JSON; half a character, as in a name that is not UTF-8, is escaped, and `read` refuses it."""
    try:
        return msgspec.json.encode(shape, enc_hook=_plain)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(shape, enc_hook=_plain)).encode()


def _plain(value: object) -> str | bytes:
    """A text, or bytes, of a kind of its own, such as Ansible's options are."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    raise NotImplementedError(type(value).__name__)


def raw(text: str | Shape) -> Raw:
    """JSON to be put into a shape as it is."""
    return Raw(encode(text) if isinstance(text, Shape) else text)


def text_of(told: Raw) -> str:
    """The JSON that stayed text, for a reader of its own."""
    return bytes(told).decode(errors="replace")


def changed(shape: Kind, **values: object) -> Kind:
    """The shape with other values in these fields."""
    return msgspec.structs.replace(shape, **values)


def derive(shape: Shape, **values: object) -> None:
    """Set fields that follow from the others, while the shape is made; what was said of them does not count."""
    for name, value in values.items():
        msgspec.structs.force_setattr(shape, name, value)


def _require_all(value: object, told: object, path: str) -> None:
    """Raise ValueError where a key was left out that is always written, whatever its default, and for NaN."""
    if isinstance(value, Shape):
        _require_fields(value, cast("Mapping[str, object]", told), path)
    elif isinstance(value, (list, tuple)):
        for number, (item, part) in enumerate(zip(value, cast("list[object]", told), strict=True)):
            if isinstance(item, _LOOKED_INTO):
                _require_all(item, part, f"{path}[{number}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, _LOOKED_INTO):
                _require_all(item, cast("Mapping[object, object]", told).get(key), f"{path}.{key}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"Expected a finite number - at `{path}`")


def _require_fields(value: Shape, told: Mapping[str, object], path: str) -> None:
    tag = value.__struct_config__.tag_field
    written = [(name, key) for name, key in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)]
    lacks = [key for name, key in written if key not in told and getattr(value, name) is not UNSET]
    lacks = [key for key in lacks if key not in value.now_and_then]
    if value.may_omit:
        lacks = [key for key in lacks if isinstance(value, Record) and key == "version"]
    if tag is not None and tag not in told:
        lacks.append(tag)
    if lacks:
        raise ValueError(f"Object missing required field `{lacks[0]}` - at `{path}`")
    for name, key in written:
        if key in told:
            _require_all(getattr(value, name), told[key], f"{path}.{key}")
