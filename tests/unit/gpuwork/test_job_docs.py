"""The pages on jobs are true: the example is typed, and tables and numbers are those of the program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.shapes.base import write
from gpuprov.shapes.choices import JobState
from gpuprov.shapes.job_order import JobOrder
from gpuprov.shapes.limits import MOST_RUNS, MOST_WORDS, PIECE_BYTES
from gpuwork import child
from gpuwork.errors import Refused, SlurmError, StoreError, TimedOut
from gpuwork.jobs import arguments, cli, one, waiting
from gpuwork.jobs.arguments import FOLDER, build_parser
from gpuwork.jobs.order import MOST_BYTES
from gpuwork.jobs.overview import MOST_LISTED
from gpuwork.jobs.run_record import LOST_TRIES
from gpuwork.jobs.store import CHUNK
from gpuwork.project_files import ProjectLimits
from gpuwork.worker import keeper
from tests.fakes.slurm_program import MAX_ARRAY_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.gpuwork.conftest import Jobs

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "jobs-internals.md").read_text()
TEXT = " ".join(PAGE.split())
USE = (DOCS / "jobs.md").read_text()
WORKERS = " ".join((DOCS / "workers.md").read_text().split())
DECISIONS = " ".join((DOCS / "decisions.md").read_text().split())


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
    assert sorted(keys) == sorted(write(JobOrder(command=("x",), after=("1",))).keys() - {"schema", "version"})


def test_the_verbs_options_and_states_are_those_of_the_program() -> None:
    verbs = build_parser()[1].choices
    assert first_cells("| Verb | Meaning | Prints |") == [*verbs]
    for verb, parser in verbs.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{verb}"))
        options = {option for action in parser._actions for option in action.option_strings} - {"-h", "--help"}
        assert set(re.findall(r"--[a-z]+", row)) == options
    assert first_cells("| State | Meaning |", USE) == [*JobState.__args__]  # type: ignore[attr-defined]
    assert f"default `{FOLDER}`" in TEXT


def test_the_exit_codes_are_those_of_the_program() -> None:
    codes = [*map(int, re.findall(r"(?:Exit codes: |· )(\d+) ", TEXT))]
    errors = [Refused.exit_code, StoreError.exit_code, SlurmError.exit_code, TimedOut.exit_code]
    assert codes == [cli.EXIT_DONE, cli.EXIT_NOT_DONE, *errors, cli.EXIT_INTERRUPTED]


def test_the_numbers_are_those_of_the_program() -> None:
    limits = ProjectLimits()
    for text in (TEXT, " ".join(USE.split())):
        assert f"number of runs, at most {MOST_RUNS:,}" in text
        assert f"files larger than {limits.file_bytes // 1024**2} MiB" in text
        assert f"more than {limits.all_bytes // 1024**3} GiB or {limits.files:,} files" in text
        assert f"is tried again, {LOST_TRIES} times more than `" in text
        assert f"SIGTERM and, after {child._GRACE_S:g} s, SIGKILL" in text
    assert f"at most {MOST_BYTES // 1024**2} MiB and {MOST_WORDS:,} words" in TEXT
    assert f"of more than {MOST_LISTED:,}, those of the newest" in TEXT
    assert f"up to {PIECE_BYTES // 1024} KiB of a log" in TEXT
    assert f"or after {waiting.CANCEL_S:g} s with an error" in TEXT
    assert f"the program waits {one.PATIENCE_S:g} s for that" in TEXT
    assert f"dropped after {one.PATIENCE_S:g} s" in DECISIONS
    assert f"the workers that answer within {arguments.ANSWER_S} s, or S" in TEXT
    assert f"It looks every {keeper.LOOK_S:g} s" in WORKERS
    assert f"an idle worker finds its run in {2 * keeper.LOOK_S:g} s" in WORKERS, "it has to be idle for one of the two"
    assert f"arrays of at most {CHUNK:,} tasks, below the default MaxArraySize of {MAX_ARRAY_SIZE:,}" in TEXT
