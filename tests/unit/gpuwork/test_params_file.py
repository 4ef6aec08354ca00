"""What a params.py asks for, and everything that is wrong with it, with lines."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from gpuwork.grid.check import MOST_COMBINATIONS, MOST_NAMES, NAMES_ALLOWED, find_faults
from gpuwork.grid.params_file import NotEvaluated, read_params
from gpuwork.grid.run_params import run_params
from gpuwork.grid.values import ALLOWED, Foreign

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.faults import Fault
    from gpuwork.grid.draft import GridDraft
    from gpuwork.grid.params_file import Evaluated

pytestmark = pytest.mark.slow


def never() -> Evaluated:
    raise AssertionError("this file need not be run")


def read(text: str) -> tuple[GridDraft | None, list[Fault]]:
    draft, faults = read_params(dedent(text), file="params.py", evaluate=never)
    return draft, [*faults, *(find_faults(draft) if draft else [])]


def told(text: str) -> list[str]:
    lines = [
        str(fault).removeprefix("params.py:") for fault in sorted(read(text)[1], key=lambda fault: fault.line or 0)
    ]
    return [line.replace(ALLOWED, "VALUE").replace(NAMES_ALLOWED, "NAME") for line in lines]


def test_what_is_written_out_is_read_without_running_the_file() -> None:
    draft, faults = read("""
        import torch
        raise SystemExit("never run")
        param2requests: dict[str, list] = {"layers": [(64, 64), (128,)], "name": ["a", None, True]}
        param2default = {"layers": (32,), "name": "b"}
    """)
    assert faults == []
    assert draft
    assert {name: entry.value for name, entry in draft.requests.items()} == {
        "layers": [(64, 64), (128,)],
        "name": ["a", None, True],
    }
    assert {name: entry.value for name, entry in draft.defaults.items()} == {"layers": (32,), "name": "b"}


def test_every_fault_is_told_at_once_with_its_line() -> None:
    assert told("""\
        param2requests = {
            "learning": [1],
            "a": 3,
            "b": [],
            "c": [1, 2, 1],
            "d": [[1], (2,), (2,)],
            "e": [{}],
            "f": [(1, [2])],
            "job_name": ["x"],
            "two words": [1],
            7: [1],
            "a": [1],
        }
        param2default = {
            "learning_rate": 1, "a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "job_name": 1, "two words": 1,
            "g": [1, 2],
            "h": {},
        }
        param2debug = {"hh": 1}
    """) == [
        "2: param2requests.learning: has no default in param2default; did you mean learning_rate?",
        "4: param2requests.b: is an empty list (allowed: at least one value)",
        "5: param2requests.c: lists a value more than once: 1",
        "6: param2requests.d: has a value that is a list (allowed: VALUE)",
        "6: param2requests.d: lists a value more than once: (2,)",
        "7: param2requests.e: has a value that is a dict (allowed: VALUE)",
        "8: param2requests.f: has a value that holds a list (allowed: VALUE)",
        "9: param2requests.job_name: is a reserved name",
        "10: param2requests.two words: is not a valid parameter name (allowed: NAME)",
        "11: param2requests.7: is of type int (allowed: a string)",
        "12: param2requests.a: is written twice, first on line 3",
        "15: param2default.job_name: is a reserved name",
        "15: param2default.two words: is not a valid parameter name (allowed: NAME)",
        "16: param2default.g: is a list (allowed: VALUE; a list belongs in param2requests)",
        "17: param2default.h: is a dict (allowed: VALUE; a list belongs in param2requests)",
        "19: param2debug.hh: has no default in param2default; did you mean h?",
    ]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("param2requests = {", ["1: is not Python: '{' was never closed"]),
        ("param2default = {}", ["param2requests: is missing (allowed: a dictionary)"]),
        (
            "param2requests = {'a': 3}\nparam2default = {'a': 1}",
            ["1: param2requests.a: is of type int, not a list of values (allowed: [first, second, ...])"],
        ),
        (
            "param2requests = {}\nparam2default = {}\nparam2default = {'a': float}",
            ["3: param2default: is assigned twice, first on line 2"],
        ),
    ],
)  # fmt: skip
def test_a_file_that_asks_for_nothing(text: str, faults: list[str]) -> None:
    evaluated: Evaluated = {"param2requests": {}, "param2default": {}}
    draft, found = read_params(text, file="params.py", evaluate=lambda: evaluated)
    found += find_faults(draft) if draft else []
    assert sorted(str(fault).removeprefix("params.py:").strip() for fault in found) == faults


def test_two_thousand_parameters_and_endless_products_are_refused_in_words() -> None:
    names = [f"n{number}" for number in range(2000)]
    requests = {name: [1] for name in names}
    draft, _ = read_params(
        f"param2requests = {requests}\nparam2default = {dict.fromkeys(names, 1)}",
        file="params.py",
        evaluate=never,
    )
    assert draft
    assert [str(fault) for fault in find_faults(draft)] == [
        f"params.py: param2requests: has 2000 parameters (allowed: at most {MOST_NAMES})",
        f"params.py: param2default: has 2000 parameters (allowed: at most {MOST_NAMES})",
    ]
    many = {name: list(range(10)) for name in names[:20]}
    draft, _ = read_params(
        f"param2requests = {many}\nparam2default = {dict.fromkeys(many, 0)}", file="p", evaluate=never
    )
    assert draft
    assert [fault.message for fault in find_faults(draft)] == ["asks for about 10^20 combinations"]
    assert MOST_COMBINATIONS == 10_000


COMPUTED = """\
from src.sizes import SIZES
from random import choice

param2requests = {
    "size": SIZES,
    "seed": list(range(3)),
    "fun": [choice],
}
param2requests["late"] = [{}]
param2default = dict(size=1, seed=0,
                     late=object())
print("this is no answer")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/sizes.py").write_text("SIZES = [(1, 2), 3]\n")
    return tmp_path


def test_what_is_computed_is_known_from_running_the_file_and_lines_from_its_text(project: Path) -> None:
    path = project / "src/params.py"
    path.write_text(COMPUTED)
    draft, faults = read_params(COMPUTED, file="params.py", evaluate=lambda: run_params(path, project=project))
    assert faults == []
    assert draft
    assert {name: (entry.value, entry.line) for name, entry in draft.requests.items()} == {
        "size": ([(1, 2), 3], 5),
        "seed": ([0, 1, 2], 6),
        "fun": ([Foreign("an object of type method")], 7),
        "late": ([{}], 4),
    }
    assert draft.defaults["late"].value == Foreign("an object of type object")
    assert draft.defaults["late"].line == 11
    messages = [str(fault).partition(" (")[0] for fault in find_faults(draft)]
    assert messages == [
        "params.py:4: param2requests.late: has a value that is a dict",
        "params.py:7: param2requests.fun: has a value that is an object of type method",
        "params.py:7: param2requests.fun: has no default in param2default",
        "params.py:11: param2default.late: is an object of type object",
    ]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("\nimport nothing_of_that_name\n", 2, "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("raise SystemExit(3)\n", 1, "SystemExit: 3"),
        ("import os\nos._exit(4)\n", None, "it ended with exit status 4"),
    ],
)
def test_a_file_that_fails_names_its_line(project: Path, text: str, line: int | None, message: str) -> None:
    (project / "params.py").write_text(text)
    with pytest.raises(NotEvaluated) as caught:
        run_params(project / "params.py", project=project)
    assert (str(caught.value), caught.value.line) == (message, line)


def test_a_file_that_does_not_end_is_ended(project: Path) -> None:
    (project / "params.py").write_text("import time\ntime.sleep(600)\n")
    with pytest.raises(NotEvaluated, match="it still ran after"):
        run_params(project / "params.py", project=project, limit_s=0.3)
