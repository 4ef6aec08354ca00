"""All that is wrong with what a person wrote is told at once, and what is right is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from gpuprov.shapes.base import Shape
from gpuprov.shapes.faults import find_faults


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
    note: Annotated[str, Meta(max_length=5)] | None = None


def faults_of(**told: Any) -> list[str]:
    return [str(fault) for fault in find_faults(Plan, told, file="plan.json")[1]]


def test_what_is_right_is_kept_and_nothing_is_left_out() -> None:
    good, faults = find_faults(Plan, {"kind": "grid", "rate": "fast", "axes": [{"name": "lr"}]}, file="plan.json")
    assert good == {"kind": "grid", "axes": (Axis(name="lr"),)}
    assert [str(fault) for fault in faults] == ["plan.json: rate: is 'fast' (allowed: 0 or more)"]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, ["kind: is missing"]),
        ({"kind": "cube"}, ["kind: is 'cube' (allowed: grid, line)"]),
        ({"kind": "grid", "debug": 1}, ["debug: is 1 (allowed: true or false)"]),
        ({"kind": "grid", "note": "longer"}, ["note: has 6 characters (allowed: at most 5)"]),
        ({"kind": "grid", "best": {"name": "A", "x": 1}}, [
            "best.'x': is not known (allowed: name, values)", "best.name: is 'A' (allowed: letters)",
        ]),
        ({"kind": "grid", "axes": [{"name": "a", "values": [1, "2", None]}, 7]}, [
            "axes[0].values[1]: is '2' (allowed: a whole number)",
            "axes[0].values[2]: is None (allowed: a whole number)",
            "axes[1]: is 7",
        ]),
        ({"kind": "grid", "by_name": {"x\n": {"name": ""}}}, [r"'by_name.x\n.name': is '' (allowed: letters)"]),
        ({"kind": "grid", "axes": [{"name": "a", "values": [1] * 4}]}, [
            "axes[0].values: has 4 items (allowed: at most 3)"
        ]),
    ],
)  # fmt: skip
def test_each_fault_has_its_place_and_what_is_allowed(told: dict[str, Any], words: list[str]) -> None:
    assert faults_of(**told) == [f"plan.json: {word}" for word in words]
