"""Shapes are read as they are written, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

import pytest
from msgspec import UNSET, UnsetType

from gpuprov.shapes.base import Document, Shape, changed, derive, encode, parse_json, read, write


class Part(Shape, frozen=True, kw_only=True):
    """A part."""

    name: str
    note: str | None = None
    numbers: tuple[float, ...] = ()


class Whole(Document, frozen=True, kw_only=True, tag="gpuprov.whole/v1"):
    """A document."""

    kind: Literal["a", "b"]
    parts: tuple[Part, ...]
    by_name: Mapping[str, Part]
    total: int = 0
    more: int | UnsetType = UNSET

    def __post_init__(self) -> None:
        derive(self, total=len(self.parts))


PART = Part(name="x", numbers=(1.0, 2.5))
WHOLE = Whole(kind="a", parts=(PART, Part(name="y", note="n")), by_name={"x": PART})


def test_what_is_written_is_read_and_derived_values_are_ours() -> None:
    told = write(WHOLE)
    assert told["total"] == 2
    assert "more" not in told
    assert read(Whole, encode(WHOLE)) == read(Whole, told) == read(Whole, json.dumps(told)) == WHOLE
    assert read(Whole, {**told, "total": 7}) == WHOLE
    assert read(Whole, {**told, "more": 3}) == changed(WHOLE, more=3)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda told: told.pop("schema"), "required field `schema` - at `$`"),
        (lambda told: told.update(schema="gpuprov.other/v1"), "'gpuprov.other/v1' - at `$.schema`"),
        (lambda told: told.pop("version"), "required field `version` - at `$`"),
        (lambda told: told.update(version=2), "at `$.version`"),
        (lambda told: told.update(version=True), "at `$.version`"),
        (lambda told: told.pop("total"), "required field `total`"),
        (lambda told: told.update(surprise=1), "unknown field `surprise`"),
        (lambda told: told["parts"][1].pop("note"), "required field `note` - at `$.parts[1]`"),
        (lambda told: told["by_name"]["x"].pop("note"), "required field `note` - at `$.by_name.x`"),
        (lambda told: told["parts"][0].update(name=None), "Expected `str`, got `null` - at `$.parts[0].name`"),
        (lambda told: told["parts"][0].update(numbers=["1"]), "at `$.parts[0].numbers[0]`"),
        (lambda told: told["parts"][0].update(numbers=[float("nan")]), "finite number - at `$.parts[0].numbers[0]`"),
        (lambda told: told.update(kind="c"), "at `$.kind`"),
        (lambda told: told.update(parts={}), "Expected `array`, got `object` - at `$.parts`"),
    ],
)
def test_anything_else_is_refused_with_its_path(spoil: Callable[[dict[str, Any]], object], says: str) -> None:
    told = write(WHOLE)
    spoil(told)
    with pytest.raises(ValueError, match=r".") as caught:
        read(Whole, told)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "b": {"c": 1, "d": 2, "c": 3}}', "key twice: c"),
        ("[NaN]", "NaN, which is not JSON"),
        ("[-Infinity]", "which is not JSON"),
        ("[1e999]", "1e999, which is too large"),
        ('["\\ud800"]', "surrogates not allowed"),
        ("[" * 100_000, "nested too deeply"),
        ("", "Expecting value"),
        (b'["\xff"]', "can't decode byte"),
        (f"[1{'0' * 5000}]", "Exceeds the limit"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_json_is_refused(text: str | bytes, says: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_json(text)
    assert says in str(caught.value)


def test_whole_characters_in_halves_are_json() -> None:
    assert parse_json('["\\ud83d\\ude00", "\\\\ud800"]') == ["\N{GRINNING FACE}", "\\ud800"]


@pytest.mark.slow
def test_a_key_twice_among_many_takes_linear_time() -> None:
    with pytest.raises(ValueError, match="twice: 7"):
        parse_json(json.dumps({str(n): 1 for n in range(100_000)})[:-1] + ', "7": 1}')


def test_half_a_character_is_written_and_refused_by_who_reads() -> None:
    half = Part(name="a\udcff", numbers=(1.5,))
    assert write(half) == {"name": "a\udcff", "note": None, "numbers": [1.5]}
    with pytest.raises(ValueError, match="surrogates not allowed"):
        read(Part, encode(half))
