"""What older images keep and print of CUDA programs is read as before, and what a hostile node says is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpuprov.shapes.base import encode, parse_json, read, write
from gpuprov.shapes.json_schema import documents
from gpuprov.shapes.program_runs import MOST_POINTS, Meeting, ProgramProgress, ProgramResult, Progress
from gpuwork.programs.run_folder import read_run_folder
from gpuwork.programs.store import read_registered
from tests.schemas import validate

BEFORE = Path(__file__).parents[2] / "data/programs_before_shapes"
PRINTED = [*sorted(BEFORE.glob("answers/*.json")), *(BEFORE / name for name in ("run/run.json", "run/result.json"))]


@pytest.mark.parametrize("path", [*PRINTED, BEFORE / "registered/program.json"], ids=lambda path: path.stem)
def test_what_was_printed_before_is_read_and_written_as_it_was(path: Path) -> None:
    told = json.loads(path.read_text())
    kind = documents()[told["schema"].removeprefix("gpuprov.").removesuffix("/v1")]
    assert write(read(kind, path.read_bytes())) == told
    assert validate(told) == told["schema"]


def test_the_folder_of_a_run_of_before_is_read(tmp_path: Path) -> None:
    shutil.copytree(BEFORE / "run", tmp_path, dirs_exist_ok=True)
    run = read_run_folder(tmp_path)
    assert (run.record.workers, run.record.is_table, run.record.local) == (1, True, False)
    assert run.find_meeting() == read(Meeting, (BEFORE / "run/scheduler.json").read_text())
    assert run.find_progress() == Progress(workers=1, rows=11, iterations=2)
    end = run.find_end()
    assert isinstance(end, ProgramResult)
    assert end.result["clusters"][0]["rows"] == 8
    run.end(end)
    assert run.find_end() == end


def test_a_program_that_was_registered_before_is_listed(tmp_path: Path) -> None:
    told = json.loads((BEFORE / "registered/program.json").read_text())
    (tmp_path / told["hash"]).mkdir()
    shutil.copy(BEFORE / "registered/program.json", tmp_path / told["hash"])
    program = read_registered(tmp_path / told["hash"])
    assert (program.listed.name, program.listed.registered) == ("kmeans", told["registered"])
    assert program.code.name == told["code"]


LOOK: dict[str, Any] = json.loads((BEFORE / "answers/look.json").read_text())


def nested(depth: int) -> object:
    """A list in a list, and so on."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("iterations", -1), ("iterations", True), ("rows", 2**70), ("seconds", "1"), ("simulated", 1), ("workers", {}),
        ("program", {"hash": "../x", "name": "a", "version": "1"}), ("chart", {"title": "t"}), ("more", 1),
        ("chart", {"title": "t", "groups": [{"label": "a", "points": [[1e301, 0.0]], "marked": False}]}),
        ("chart", {"title": "t", "groups": [{"label": "a", "points": [[1, 2, 3]], "marked": False}]}),
        ("chart", {"title": "t", "groups": [{"label": "a", "points": [[0, 0]] * (MOST_POINTS + 1), "marked": False}]}),
        ("workers", [{**LOOK["end"]["workers"][0], "built_for": "sm_9"}]), ("result", float("nan")),
        ("result", nested(980)),
    ],
)  # fmt: skip
def test_a_hostile_end_of_a_run_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(ProgramProgress, {**LOOK, "end": {**LOOK["end"], key: value}})


@pytest.mark.parametrize("value", [2**70, nested(200), "\N{SNOWMAN}", None, {"a": [1, 2.5, {"b": True}]}])
def test_a_result_of_any_form_is_handed_on_as_it_is(value: object) -> None:
    told = read(ProgramResult, json.dumps({**LOOK["end"], "result": value}))
    assert parse_json(encode(told)) == {**LOOK["end"], "result": value}
    assert write(told)["result"] == value
