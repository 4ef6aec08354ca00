"""The schemas in docs/ are those of the shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.shapes.json_schema import documents, json_schema, write_schemas
from tests.schemas import BEFORE, SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[3] / "docs"
ADDED = {"seconds", "at"}  # by whoever prints it, to any document


@pytest.mark.parametrize("name", documents())
def test_the_schema_in_docs_is_that_of_the_shape(name: str) -> None:
    written = json.loads((DOCS / f"{name}.schema.json").read_text())
    assert written == json_schema(documents()[name]), "write it again: python3 -m gpuprov.shapes.json_schema docs"


def test_no_schema_is_written_by_hand() -> None:
    assert {path.name.removesuffix(".schema.json") for path in DOCS.glob("*.schema.json")} == documents().keys()


@pytest.mark.parametrize("name", documents())
def test_no_key_was_lost_or_made_optional(name: str) -> None:
    schema, before = json_schema(documents()[name]), BEFORE.get(f"{name}.schema.json")
    if before is not None:
        assert set(before["properties"]) <= set(schema["properties"])
        assert set(before["required"]) - ADDED <= set(schema["required"])


@pytest.mark.slow
def test_meanings_are_those_of_the_docstrings(tmp_path: Path) -> None:
    write_schemas(tmp_path)
    told = json.loads((tmp_path / "verify.schema.json").read_text())
    assert told["properties"]["passed"]["description"] == "Whether every node passed, with or without warnings."
    assert told["properties"]["schema"] == {"const": "gpuprov.verify/v1"}
    assert "hosts" not in told["required"]
    assert told["$defs"]["Check"]["properties"]["id"]["pattern"] == "^[a-z0-9-]{1,64}$"


def test_every_reference_leads_somewhere() -> None:
    for name, schema in SCHEMAS.items():
        for reference in set(references_in(schema)):
            file, _, pointer = reference.partition("#")
            part = SCHEMAS[f"gpuprov.{file.removesuffix('.schema.json')}/v1"] if file else schema
            for key in pointer.split("/")[1:]:
                assert key in part, f"{name}: {reference}"
                part = part[key]


def references_in(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from references_in(value)
    elif isinstance(part, list):
        for value in part:
            yield from references_in(value)
