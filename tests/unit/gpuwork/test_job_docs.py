"""The pages on jobs are true: the example is typed, and tables and numbers are those of the program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.shapes.base import write
from gpuprov.shapes.choices import JobState
from gpuprov.shapes.job_order import JobOrder
from gpuwork.jobs.arguments import FOLDER, build_parser

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.gpuwork.conftest import Jobs

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "jobs-internals.md").read_text()
TEXT = " ".join(PAGE.split())
USE = (DOCS / "jobs.md").read_text()
WORKERS = " ".join((DOCS / "workers.md").read_text().split())


def first_cells(heading: str, page: str = PAGE) -> list[str]:
    """The words in the first column of the table under a head."""
    table = page.partition(heading)[2].partition("\n\n")[0]
    return re.findall(r"^\| `([a-z_]+)", table, re.MULTILINE)


def test_the_example_is_right(held: Jobs, make: Callable[..., Path]) -> None:
    shown = re.search(
        r"^    \$ python3 -m gpuwork\.jobs submit <<'END'\n(.*?)    END\n(.*?)\n\n", PAGE, re.DOTALL | re.MULTILINE
    )
    assert shown
    project = str(make({"seed.py": ""}))
    answer = held("submit", stdin=shown[1].replace("/shared/projects/vision", project).encode())
    assert answer == json.loads(shown[2])


def test_the_keys_of_an_order_are_those_of_the_program() -> None:
    keys = first_cells("| Key | Value | Default |")
    assert sorted(keys) == sorted(
        write(JobOrder(command=("x",), after=("1",), notify="x", partition="x", shards=1, qos="x", gpu_type="x")).keys()
        - {"schema", "version"}
    )


def test_the_verbs_options_and_states_are_those_of_the_program() -> None:
    verbs = build_parser()[1].choices
    assert first_cells("| Verb | Meaning | Prints |") == [*verbs]
    for verb, parser in verbs.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{verb}"))
        options = {option for action in parser._actions for option in action.option_strings} - {"-h", "--help"}
        assert set(re.findall(r"--[a-z]+", row)) == options
    assert first_cells("| State | Meaning |", USE) == [*JobState.__args__]  # type: ignore[attr-defined]
    assert f"default `{FOLDER}`" in TEXT
