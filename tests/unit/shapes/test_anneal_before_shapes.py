"""What the release before shapes left and said of annealing is read, whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpuprov.shapes.anneal import (
    AnnealChecked,
    AnnealDivision,
    AnnealOrder,
    AnnealPart,
    AnnealPrepared,
    AnnealRuns,
    AnnealShown,
)
from gpuprov.shapes.base import Record, read, write
from gpuwork.anneal.division import get_share
from gpuwork.anneal.order import MODEL
from gpuwork.anneal.part_record import read_progress, read_record
from gpuwork.anneal.prepare import open_runs
from tests.schemas import validate

DATA = Path(__file__).parents[2] / "data/anneal_before_shapes"
KINDS: dict[str, type[Record]] = {
    "answers/checked.json": AnnealChecked,
    "answers/prepared.json": AnnealPrepared,
    "answers/shown.json": AnnealShown,
    "runs/runs.json": AnnealRuns,
    "runs/rastrigin/order.json": AnnealOrder,
    "runs/rastrigin/division.json": AnnealDivision,
    "runs/rastrigin/parts/0/result.json": AnnealPart,
    "runs/rastrigin/parts/1/result.json": AnnealPart,
}


@pytest.mark.parametrize("name", KINDS)
def test_it_is_read_and_written_as_it_was(name: str) -> None:
    told = json.loads((DATA / name).read_text())
    assert write(read(KINDS[name], told)) == told
    validate(told)


def test_a_run_goes_on(tmp_path: Path) -> None:
    shutil.copytree(DATA / "runs", tmp_path / "runs")
    (tmp_path / "runs/rastrigin/model.txt").rename(tmp_path / "runs/rastrigin" / MODEL)
    (run,) = open_runs(tmp_path / "runs")
    assert (run.order.parts, run.order.settings.thread_count, run.order.settings.initial_temp) == (2, 4, 1000)
    assert [get_share(run, part) for part in range(2)] == [(0, 2), (2, 2)]
    progress, record = read_progress(run.part(0)), read_record(run.part(0))
    assert progress is not None
    assert record is not None
    assert (progress.phase, record.chains, record.device) == ("write", 2, "numba CUDA simulator")


WRONG: dict[str, tuple[dict[str, Any], ...]] = {
    "runs/rastrigin/order.json": ({"parts": 0}, {"parts": 10_001}, {"name": "../x"}, {"code": "x"}, {"settings": {}}),
    "runs/runs.json": ({"runs": ["../x"]}, {"runs": "rastrigin"}, {"more": 1}),
    "runs/rastrigin/division.json": ({"shares": [0]}, {"shares": [1.5]}, {"shares": [10**10]}),
    "runs/rastrigin/parts/0/result.json": (
        {"chains": 0}, {"gpus": ["x y"]}, {"block": 1025}, {"best": "low"}, {"simulated": 1}, {"node": "x" * 301},
        {"troubles": [{"chain": 0, "step": 0, "kind": "odd", "message": ""}]},
        {"troubles": [{"chain": 0, "step": 0, "kind": "error", "message": ""}] * 101},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_was_changed_is_none(name: str) -> None:
    told = json.loads((DATA / name).read_text())
    for wrong in WRONG[name]:
        with pytest.raises(ValueError, match=r" - at `\$|unknown field"):
            read(KINDS[name], {**told, **wrong})


HOSTILE: tuple[dict[str, Any], ...] = (
    {"name": ".."}, {"state": "happy"}, {"chains": 0}, {"best": True}, {"best_state": ["1"]}, {"more": 1},
    {"folder": "x" * 4097}, {"troubles": [{}]}, {"series": [{"chain": 0}]},
    {"series": [{"chain": 0, "points": [[1000, 1e301]]}]}, {"series": [{"chain": 0, "points": [[1000]]}]},
)  # fmt: skip
OF_PART: tuple[dict[str, Any], ...] = ({"reason": "x" * 1001}, {"phase": "sleep"}, {"gpus": ["x y"]}, {"block": 0})


def test_hostile_answers_are_refused() -> None:
    told = json.loads((DATA / "answers/shown.json").read_text())
    run = told["runs"][0]
    part = run["parts"][0]
    for wrong in (*HOSTILE, *({"parts": [{**part, **one}]} for one in OF_PART)):
        with pytest.raises(ValueError, match=r" - at `\$"):
            read(AnnealShown, {**told, "runs": [{**run, **wrong}]})
