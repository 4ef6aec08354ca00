"""All that is wrong with what a person wrote is told at once, and what is right is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from gpuprov.core.redact import hide_secrets
from gpuprov.shapes.base import Shape
from gpuprov.shapes.faults import find_faults
from gpuprov.shapes.values import Value
from gpuprov.shapes.written import Manner, read_yaml


class Axis(Shape, frozen=True, kw_only=True):
    """A part."""

    name: Annotated[str, Meta(pattern=r"^[a-z]+\Z", extra={"allowed": "letters"})]
    values: Annotated[tuple[int, ...], Meta(max_length=3)] = ()


class Plan(Shape, frozen=True, kw_only=True):
    """What is read."""

    kind: Literal["grid", "line"]
    axes: tuple[Axis, ...] = ()
    best: Axis | None = None
    by_name: Mapping[str, Axis] = {}
    rate: Annotated[float, Meta(ge=0)] = 1.0
    debug: bool = False
    words: tuple[str, ...] = ()
    best_of: Annotated[int, Meta(ge=1)] | None = None
    note: Annotated[str, Meta(max_length=5)] | None = None


KNOWN = "kind, axes, best, by_name, rate, debug, words, best_of, note"


def faults_of(**told: Any) -> list[str]:
    return [str(fault) for fault in find_faults(Plan, told, file="plan.json")[1]]


def test_what_is_right_is_kept_and_nothing_is_left_out() -> None:
    good, faults = find_faults(Plan, {"kind": "grid", "rate": "fast", "axes": [{"name": "lr"}]}, file="plan.json")
    assert good == {"kind": "grid", "axes": (Axis(name="lr"),)}
    assert [str(fault) for fault in faults] == ["plan.json: rate: is 'fast' (allowed: a number, 0 or more)"]


def test_what_is_right_within_an_object_is_kept_where_one_can_be_made_of_it() -> None:
    axes = [{"name": "lr", "values": "many"}, {"values": [1]}]
    good, faults = find_faults(Plan, {"kind": "grid", "axes": axes, "words": ["a", 2]}, file="plan.json")
    assert good == {"kind": "grid", "axes": (Axis(name="lr"),)}
    assert [fault.where for fault in faults] == ["axes[0].values", "axes[1].name", "words[1]"]


def test_faults_have_the_lines_of_what_was_written() -> None:
    document, _ = read_yaml("kind: cube\naxes:\n  - name: A\n    x: 1\n  - {}\n", file="plan.yaml", manner=Manner())
    assert document is not None
    faults = find_faults(Plan, document, file="plan.yaml")[1]
    assert [(fault.where, fault.line) for fault in faults] == [
        ("kind", 1), ("axes[0].name", 3), ("axes[0].x", 4), ("axes[1].name", 5),
    ]  # fmt: skip
    assert (document.line_of("axes[0].x"), document.line_of("axes[7].x"), document.line_of("kind.x")) == (4, None, None)


def test_what_is_no_object_at_all_is_one_fault() -> None:
    told = Value(content=[Value(content=1)], line=1)
    assert [str(one) for one in find_faults(Plan, told, file="a")[1]] == ["a:1: is a list (allowed: a mapping of keys)"]


def test_secrets_are_hidden_before_a_text_is_cut() -> None:
    told = {"kind": f"redis://:{'x' * 100}@host"}
    (fault,) = find_faults(Plan, told, file="a", hide=hide_secrets)[1]
    assert fault.message == "is 'redis://(hidden)@host'"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, ["kind: is missing"]),
        ({"kind": "cube"}, ["kind: is 'cube' (allowed: grid, line)"]),
        ({"kind": "grid", "debug": 1}, ["debug: is 1 (allowed: true or false)"]),
        ({"kind": "grid", "note": "longer"}, ["note: has 6 characters (allowed: at most 5)"]),
        ({"kind": "grid", "best": {"name": "A", "x": 1}}, [
            "best.name: is 'A' (allowed: letters)", "best.x: is not known (allowed: name, values)",
        ]),
        ({"kind": "grid", "axes": [{"name": "a", "values": [1, "2", None]}, 7]}, [
            "axes[0].values[1]: is '2' (allowed: a whole number)",
            "axes[0].values[2]: is empty (allowed: a whole number)",
            "axes[1]: is 7 (allowed: a mapping of keys)",
        ]),
        ({"kind": "grid", "by_name": {"x\n": {"name": ""}}}, [r"'by_name.x\n.name': is '' (allowed: letters)"]),
        ({"kind": "grid", "axes": [{"name": "a", "values": [1] * 4}]}, [
            "axes[0].values: has 4 items (allowed: at most 3)"
        ]),
        ({"kind": ["grid"]}, ["kind: is a list (allowed: grid, line)"]),
        ({"kind": "grid", "words": {"a": 1}}, ["words: is a mapping (allowed: a list)"]),
        ({"kind": "grid", "words": ["a", 1, True]}, [
            "words[1]: is 1 (use quotes if it is text) (allowed: text)",
            "words[2]: is true (use quotes if it is text) (allowed: text)",
        ]),
        ({"kind": "grid", "best_of": "3"}, ["best_of: is '3' (allowed: a whole number, 1 or more, or null)"]),
        ({"kind": "grid", "best_of": 0}, ["best_of: is 0 (allowed: 1 or more)"]),
        ({"kind": "grid", "rates": 1}, [f"rates: is not known; did you mean rate? (allowed: {KNOWN})"]),
        ({"kind": "grid", "best": []}, ["best: is a list (allowed: a mapping of keys or null)"]),
    ],
)  # fmt: skip
def test_each_fault_has_its_place_and_what_is_allowed(told: dict[str, Any], words: list[str]) -> None:
    assert faults_of(**told) == [f"plan.json: {word}" for word in words]
