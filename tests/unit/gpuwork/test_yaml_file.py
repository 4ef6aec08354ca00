"""The same as a grid.yaml, and what is drawn at random."""

from __future__ import annotations

from textwrap import dedent

import pytest

from gpuwork.grid.check import as_grid, find_faults
from gpuwork.grid.draft import Draw
from gpuwork.grid.expand import expand_grid
from gpuwork.grid.values import ALLOWED
from gpuwork.grid.yaml_file import read_yaml


def faults_of(text: str) -> list[str]:
    draft, faults = read_yaml(dedent(text), file="grid.yaml")
    found = [*faults, *(find_faults(draft) if draft else [])]
    lines = [str(fault).removeprefix("grid.yaml") for fault in sorted(found, key=lambda fault: fault.line or 0)]
    return [line.replace(ALLOWED, "VALUE") for line in lines]


def expanded(text: str) -> list[dict[str, object]]:
    draft, faults = read_yaml(dedent(text), file="grid.yaml")
    assert draft
    assert [*faults, *find_faults(draft)] == []
    return [dict(values) for values in expand_grid(as_grid(draft))]


def test_numbers_and_words_are_what_they_look_like() -> None:
    values = expanded("""
        fixed: {small: 1e-3, no: no, day: 2026-01-01, quoted: "1", nothing: null, right: true, negative: -2}
        grid: {layers: [[64, 64], [128], 7]}
    """)
    fixed = {"small": 0.001, "no": "no", "day": "2026-01-01", "quoted": "1", "nothing": None, "right": True}
    fixed |= {"negative": -2}
    assert values == [{**fixed, "layers": layers} for layers in ((64, 64), (128,), 7)]


def test_drawn_values_are_the_same_every_time_and_do_not_depend_on_each_other() -> None:
    text = """
        random:
          samples: 4
          seed: 7
          lr: {type: loguniform, min: 1e-4, max: 1e-1}
          units: {type: randint, min: 1, max: 3}
          drop: {type: uniform, min: 0, max: 0.5}
          act: {type: choice, options: [relu, tanh]}
    """
    drawn = expanded(text)
    assert [list(values) for values in drawn] == [["lr", "units", "drop", "act"]] * 4
    assert drawn[0] == {"lr": 0.000376122569759, "units": 1, "drop": 0.199473347468, "act": "tanh"}
    more = expanded(
        text.replace("samples: 4", "samples: 9").replace("act:", "zzz: {type: randint, min: 0, max: 9}\n          act:")
    )
    assert [values["lr"] for values in more[:4]] == [values["lr"] for values in drawn]
    assert [values["act"] for values in more[:4]] == [values["act"] for values in drawn]
    other = expanded(text.replace("seed: 7", "seed: 8"))
    assert [values["lr"] for values in other] != [values["lr"] for values in drawn]


def test_each_combination_is_run_with_each_sample_and_a_value_drawn_twice_counts_once() -> None:
    text = """
        grid: {lr: [1, 2]}
        random: {samples: 30, seed: 1, side: {type: choice, options: [left, right]}}
    """
    assert [tuple(values.values()) for values in expanded(text)] == [
        (1, "right"),
        (1, "left"),
        (2, "right"),
        (2, "left"),
    ]


def test_a_kind_of_draw_stays_in_its_range() -> None:
    from gpuwork.grid.expand import _value

    below_one = 1 - 2**-53
    assert _value(Draw(kind="randint", low=2, high=4), 0.0) == 2
    assert _value(Draw(kind="randint", low=2, high=4), below_one) == 4
    assert _value(Draw(kind="choice", options=("a", "b")), below_one) == "b"
    assert _value(Draw(kind="uniform", low=0, high=0.5), below_one) == 0.5
    assert _value(Draw(kind="loguniform", low=1e-4, high=1e-1), 0.0) == 1e-4
    assert _value(Draw(kind="loguniform", low=1e-4, high=1e-1), 0.5) == pytest.approx(10**-2.5)


def test_every_fault_is_told_at_once_with_its_line() -> None:
    assert faults_of("""\
        fixed:
          lr: [0.1, 0.2]
          units: 3
          units: 4
        grid:
          units: [1]
          a: 3
          b: []
          c: [1, 1]
          d: [{x: 1}]
          e: [!x 1]
        random:
          samples: 0
          seed: x
          f: {type: normal}
          g: {type: uniform, min: 2, max: 1}
          h: {type: loguniform, min: 0, max: 1}
          i: {type: choice, options: []}
          j: {type: randint, max: 1}
        debug:
          k: 1
        gird: {}
    """) == [
        ":2: fixed.lr: is a list (allowed: VALUE; a list belongs in grid)",
        ":4: fixed.units: is written twice, first on line 3",
        ":6: grid.units: is also in fixed (allowed: one section for each name)",
        ":7: grid.a: is of type int, not a list of values (allowed: [first, second, ...])",
        ":8: grid.b: is an empty list (allowed: at least one value)",
        ":9: grid.c: lists a value more than once: 1",
        ":10: grid.d: has a value that is a dict (allowed: VALUE)",
        ":11: grid.e: has a value that is an object tagged !x (allowed: VALUE)",
        ":13: random.samples: is 0 (allowed: a whole number, 1 to 10000)",
        ":14: random.seed: is 'x' (allowed: a whole number)",
        ":15: random.f.type: is 'normal' (allowed: choice, uniform, loguniform, randint)",
        ":16: random.g: has min 2 and max 1 (allowed: numbers, min <= max)",
        ":17: random.h.min: is 0 (allowed: above 0)",
        ":18: random.i.options: is not a list of values (allowed: a list; each VALUE)",
        ":19: random.j: has type, max (allowed: max, min, type)",
        ":21: debug.k: has no default in fixed",
        ":22: gird: is not a section (allowed: fixed, grid, random, debug)",
    ]


NOTHING = ": has neither grid nor random (allowed: fixed, grid, random, debug)"


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", [NOTHING]),
        ("- a\n", [NOTHING, ":1: is not a mapping (allowed: name: value)"]),
        (
            "grid:\n  a: [1\n",
            [":3: is not YAML: while parsing a flow sequence expected ',' or ']', but got '<stream end>'"],
        ),
        ("grid: &a {b: [*a]}\n", [":1: has an alias (*name) (allowed: the value itself)"]),
        (
            "random: {samples: 2, seed: 1}\n",
            [":1: random: draws nothing (allowed: name: {type: uniform, min: 0, max: 1})"],
        ),
    ],
)
def test_a_file_that_asks_for_nothing(text: str, faults: list[str]) -> None:
    assert faults_of(text) == faults
