"""What is read of YAML by all that people write: lines, keys that are there twice, aliases and tags."""

from __future__ import annotations

import pytest

from gpuprov.shapes.values import Value
from gpuprov.shapes.written import Manner, read_yaml, word_as_yaml_1_1

NEW = Manner()
OLD = Manner(word=word_as_yaml_1_1, tag="the tag {tag} is not allowed")
WORDS = "[no, 0x10, 1e-3, 2026-01-01, '1', ~, 010]"


def read(text: str, manner: Manner = NEW) -> tuple[object, list[str]]:
    value, faults = read_yaml(text, file="f", manner=manner)
    return value.plain if value else None, [str(fault) for fault in faults]


def test_words_are_what_the_version_of_yaml_says() -> None:
    assert read(WORDS) == (["no", "0x10", 0.001, "2026-01-01", "1", None, 10], [])
    assert read(WORDS, OLD) == ([False, 16, "1e-3", "2026-01-01", "1", None, 8], [])


def test_a_value_knows_the_line_of_its_key_and_where_it_begins() -> None:
    value, _ = read_yaml("a: 1\nb:\n\n  - x\n", file="f", manner=NEW)
    assert value is not None
    assert isinstance(value.content, dict)
    below = value.content["b"]
    assert (value.line, below.line, below.begins) == (1, 2, 4)
    assert below.content == [Value(content="x", line=4, begins=4)]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("a: {b: 1, b: 2}\na: 3\n", ["f:1: a.b: is written twice, first on line 1",
                                     "f:2: a: is written twice, first on line 1"]),
        ("a: &x {b: *x}\n", ["f:1: a.b: an alias refers to a value that contains it"]),
        ("a: !secret b\n", ["f:1: a: the tag !secret is not allowed"]),
        ("? [a]\n: 1\n", ["f:1: a key is not text"]),
        ("a: 0b_\n", ["f:1: a: not a number: 0b_"]),
        ("a: [\n", ["f:2: is not YAML: while parsing a flow node expected the node content, but found '<stream end>'"]),
        ("a: \x01\n", ["f: is not YAML: unacceptable character #x0001: special characters are not allowed"]),
        ("", []),
    ],
)  # fmt: skip
def test_everything_that_is_wrong_is_told(text: str, faults: list[str]) -> None:
    assert read(text, OLD)[1] == faults


def test_a_tag_is_left_to_who_reads_the_value_where_nothing_is_said_of_it() -> None:
    value, faults = read_yaml("!x 1", file="f", manner=NEW)
    assert faults == []
    assert value is not None
    assert value.tag == "!x"


def test_no_alias_is_followed_where_none_may_be() -> None:
    found = read("a: &x 1\nb: *x\n", Manner(aliases=False))
    assert found == (None, ["f:2: has an alias (*name) (allowed: the value itself)"])


def test_what_expands_without_end_is_read_once() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    value, faults = read_yaml("\n".join(lines), file="f", manner=OLD)
    assert faults == []
    assert value is not None
    assert isinstance(value.plain, dict)
    assert "is not YAML" in read("[" * 1_000)[1][0]
