"""What the release before shapes left and said of a grid is read, whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuprov.roles.work.grid_answers import read_combinations, read_table
from gpuprov.shapes.base import Record, read, write
from gpuprov.shapes.grids import GridChecked, GridDone, GridListed, GridPrepared, GridSeries, GridSubmission
from gpuwork.grid.store import list_params, read_done
from gpuwork.grid.submit import read_submitted_runs
from gpuwork.grid.tables import list_runs, list_series
from tests.schemas import validate

DATA = Path(__file__).parents[2] / "data/grids_before_shapes"
KINDS: dict[str, type[Record]] = {
    "checked": GridChecked, "faults": GridChecked, "listed": GridListed, "prepared": GridPrepared, "series": GridSeries,
}  # fmt: skip


def answer(name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((DATA / f"answers/{name}.json").read_text())
    return told


@pytest.mark.parametrize("name", KINDS)
def test_an_answer_is_read_and_written_as_it_was(name: str) -> None:
    told = answer(name)
    assert write(read(KINDS[name], told)) == told
    validate(told)


def test_answers_have_their_meaning() -> None:
    table = read_table(answer("listed"))
    assert [run["run.state"] for run in table.runs] == ["done", "failed", "open", "done", "failed", "open"]
    assert read_combinations(answer("checked")) == tuple(table.combinations.values())
    with pytest.raises(ValueError, match=r"faults there: grid.yaml:1: grid.lr: is of type float"):
        read_combinations(answer("faults"))


def test_a_folder_of_runs_is_read() -> None:
    store = DATA / "runs"
    before, now = read(GridListed, answer("listed")), list_runs(store)
    assert now.columns == before.columns
    assert now.combinations == before.combinations
    assert now.submissions == before.submissions
    assert [*now.rows] == [row for row in before.rows if "open" not in row]
    assert list_series(store) == read(GridSeries, answer("series"))
    assert [run.state for param in list_params(store) for run in param.runs] == ["done", "failed", "done", "failed"]


def test_records_are_read_and_written_as_they_were() -> None:
    for path in (DATA / "runs").glob("*/*/done.json"):
        told = json.loads(path.read_text())
        assert read_done(path.parent) == read(GridDone, told)
        assert write(read(GridDone, told)) == told
    for path in (DATA / "runs/.submissions").glob("*/submission.json"):
        told = json.loads(path.read_text())
        assert write(read_submitted_runs(path.parent).told) == told
        assert write(read(GridSubmission, told)) == told


@pytest.mark.parametrize(
    "wrong",
    [
        {"code": "abc"},
        {"module": "a b"},
        {"module": "a.b.c"},
        {"runs": []},
        {"runs": ["../x"]},
        {"varied": [1]},
        {"more": 1},
    ],
    ids=str,
)
def test_a_submission_that_was_changed_is_none(wrong: dict[str, Any]) -> None:
    told = json.loads(next((DATA / "runs/.submissions").glob("*/submission.json")).read_text())
    assert read(GridSubmission, {**told, "module": "m\u00fc.job"}).module == "m\u00fc.job"
    with pytest.raises(ValueError, match=r" - at `\$|unknown field"):
        read(GridSubmission, {**told, **wrong})
