"""The JSON Schemas of docs/, made of the shapes.

python3 -m gpuprov.shapes.json_schema docs      write them all
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any, Final, cast

import msgspec

import gpuprov.shapes
from gpuprov.shapes.base import Record, Shape

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_HOME: Final = "gpuprov.shapes."
_SUFFIX: Final = ".schema.json"


def documents() -> dict[str, type[Record]]:
    """All documents by the name in their schema, such as `verify` of `gpuprov.verify/v1`."""
    for module in pkgutil.iter_modules(gpuprov.shapes.__path__):
        importlib.import_module(f"gpuprov.shapes.{module.name}")
    found = {
        _name_of(kind): kind
        for kind in sorted(_below(Record), key=lambda one: len(one.__mro__))
        if kind.__module__.startswith(_HOME) and str(kind.__struct_config__.tag).startswith("gpuprov.")
    }
    return dict(sorted(found.items()))


def json_schema(kind: type[Record]) -> dict[str, Any]:
    """The schema of a document; what each key means is what its class says under `Attributes`."""
    (_, parts) = msgspec.json.schema_components([kind])
    for shape in _parts_of(kind, {}).values():
        if shape.__name__ in parts:
            _describe(shape, parts[shape.__name__])
    own = _without_title(parts.pop(kind.__name__))
    whole = {"$schema": _DRAFT, "title": f"gpuprov.{_name_of(kind)}/v1", **own}
    if parts:
        whole["$defs"] = {name: _without_title(part) for name, part in sorted(parts.items())}
    told: dict[str, Any] = _as_ecma(whole)
    return told


def write_schemas(folder: Path) -> None:
    """Write the schema of each document into a folder, and remove none."""
    for name, kind in documents().items():
        text = json.dumps(json_schema(kind), indent=2, ensure_ascii=False)
        (folder / f"{name}{_SUFFIX}").write_text(f"{text}\n", encoding="utf-8")


def _name_of(kind: type[Record]) -> str:
    return str(kind.__struct_config__.tag).removeprefix("gpuprov.").removesuffix("/v1")


def _below(kind: type[Record]) -> set[type[Record]]:
    return {*kind.__subclasses__()}.union(*map(_below, kind.__subclasses__()))


def _parts_of(kind: type[Shape], found: dict[str, type[Shape]]) -> dict[str, type[Shape]]:
    """The shape and all that occur in it, by name."""
    waiting: list[Any] = [msgspec.inspect.type_info(kind)]
    seen: set[int] = set()
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls.__name__ in found:
                continue
            found[info.cls.__name__] = cast("type[Shape]", info.cls)
        if isinstance(info, (list, tuple)):
            waiting.extend(info)
        elif isinstance(info, (msgspec.inspect.Type, msgspec.inspect.Field)) and id(info) not in seen:
            seen.add(id(info))
            waiting.extend(getattr(info, name) for name in info.__struct_fields__)
    return found


def _describe(kind: type[Shape], schema: dict[str, Any]) -> None:
    summary, meanings = _read_docstring(kind)
    schema["description"] = summary
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key, part in schema.get("properties", {}).items():
        part.pop("default", None)
        name = fields[key].name if key in fields else key
        if name in meanings:
            schema["properties"][key] = {"description": meanings[name], **part}
    tag = kind.__struct_config__.tag_field
    needed = [key for key, field in fields.items() if field.default is not msgspec.UNSET]
    needed = [key for key in needed if key not in kind.now_and_then]
    if kind.may_omit:
        needed = [key for key in needed if fields[key].required or (issubclass(kind, Record) and key == "version")]
    schema["required"] = [*([tag] if tag else []), *needed]
    if issubclass(kind, Record) and kind.together:
        schema["dependentRequired"] = {key: [*others] for key, others in kind.together.items()}
    schema.update(kind.held_to)


def _read_docstring(kind: type[Shape]) -> tuple[str, dict[str, str]]:
    """What a class is, in its first line, and what its attributes and those of the classes above it are."""
    meanings: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if issubclass(one, Shape):
            _, _, rest = (one.__doc__ or "").partition("Attributes:\n")
            block = "\n".join(line.strip() if line.startswith(" " * 12) else line for line in rest.splitlines())
            for name, text in re.findall(r"^ {8}(\w+): (.+(?:\n\S.*)*)", block, re.MULTILINE):
                meanings[name] = " ".join(text.split())
    summary = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
    return summary, meanings


def _without_title(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "title"}


def _as_ecma(value: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """With patterns and single values as JSON Schema has them."""
    if isinstance(value, dict):
        if isinstance(value.get("pattern"), str):
            value = {**value, "pattern": value["pattern"].replace(r"\Z", "$")}
        if isinstance(value.get("enum"), list) and len(value["enum"]) == 1:
            value = {**{key: item for key, item in value.items() if key != "enum"}, "const": value["enum"][0]}
        return {key: _as_ecma(item) for key, item in value.items()}
    return [_as_ecma(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
