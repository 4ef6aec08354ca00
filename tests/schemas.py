"""The schemas of docs/, and how a document is held to its own, and to the one that it had before it became a shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
from referencing import Registry, Resource

DOCS = Path(__file__).parents[1] / "docs"
SCHEMAS: dict[str, dict[str, Any]] = {
    f"gpuprov.{path.name.removesuffix('.schema.json')}/v1": json.loads(path.read_text())
    for path in sorted(DOCS.glob("*.schema.json"))
}


def _open(schema: Any) -> Any:
    """A schema to which fields may be added."""
    if isinstance(schema, list):
        return [_open(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _open(one) for key, one in schema.items() if (key, one) != ("additionalProperties", False)}


# Written by hand for the release before, by file: programs of users may hold documents to them
BEFORE: dict[str, dict[str, Any]] = _open(
    json.loads((DOCS.parent / "tests/data/schemas_before_shapes.json").read_text())
)


def _registry(schemas: dict[str, dict[str, Any]]) -> Registry[Any]:
    return Registry().with_resources((name, Resource.from_contents(one)) for name, one in schemas.items()).crawl()


_OF_NOW = _registry(
    {f"{name.removeprefix('gpuprov.').removesuffix('/v1')}.schema.json": SCHEMAS[name] for name in SCHEMAS}
)
_OF_BEFORE = _registry(BEFORE)


def validate(document: dict[str, Any]) -> str:
    """The id of a document that is as its schema says; raises where it is not, or has none."""
    name: str = document["schema"]
    as_read = json.loads(json.dumps(document, allow_nan=False))
    before = BEFORE.get(f"{name.removeprefix('gpuprov.').removesuffix('/v1')}.schema.json")
    for schema, registry in ((SCHEMAS[name], _OF_NOW), *([(before, _OF_BEFORE)] if before else [])):
        jsonschema.Draft202012Validator(schema, registry=registry).validate(as_read)
    return name
