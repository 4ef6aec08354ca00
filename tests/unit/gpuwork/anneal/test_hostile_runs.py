"""What a job can leave in the folder of runs in place of each file: the program ends in words, and others are told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.shapes.anneal import AnnealShown
from gpuprov.shapes.base import read
from gpuprov.shapes.error import Error
from gpuwork.anneal.cli import main
from tests.hostile_jobs import STATES, folder_for_all

if TYPE_CHECKING:
    from gpuprov.shapes.anneal import Run

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[3] / "data/anneal_before_shapes/runs"
OF_RUN = ("order.json", "model.py", "")  # without these it is no run, and the folder is refused
OF_PART = ("parts", "parts/0", "parts/0/result.json", "parts/0/progress.json", "parts/0/failure.json", "parts/0/.lock")
OF_RESULT = ("division.json", "best.npz", "all.npz", "trace.npz", "rates", "tree")
SLOW_S = 3.0
states = pytest.mark.parametrize("state", [state for state in STATES if state != "a device" or os.geteuid() == 0])


def make_runs(folder: Path) -> Path:
    """Two runs, of which one part is done and the other one waits."""
    for name in ("good", "bad"):
        run = folder / name
        shutil.copytree(DATA / "rastrigin", run)
        (run / "model.txt").rename(run / "model.py")
        shutil.rmtree(run / "parts/1")
        told = json.loads((run / "order.json").read_text())
        (run / "order.json").write_text(json.dumps({**told, "name": name}))
    (folder / "runs.json").write_text(
        json.dumps({**json.loads((DATA / "runs.json").read_text()), "runs": ["good", "bad"]})
    )
    return folder


def look(folder: Path, place: str, state: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Run] | Error:
    """What the program says of the runs once one place has a state."""
    path = make_runs(folder) / place
    subprocess.run(["rm", "-rf", str(path)], check=True)
    STATES[state](path)
    capsys.readouterr()
    began = time.process_time()
    code = main(["show", str(folder), "--series"])
    said = capsys.readouterr().out
    assert time.process_time() - began < SLOW_S
    assert len(said) < 20_000
    subprocess.run(["rm", "-rf", *map(str, folder.iterdir())], check=True)  # also what Python cannot remove
    if code:
        assert code == 3
        return read(Error, said)
    return {run.name: run for run in read(AnnealShown, said).runs}


@pytest.mark.sampled(4)
@states
def test_a_state_of_a_part_hurts_no_other_run(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (*OF_PART, *OF_RESULT):
        with folder_for_all() as folder:
            found = look(folder, f"bad/{place}", state, capsys)
        assert not isinstance(found, Error), (place, found)
        good, bad = found["good"], found["bad"]
        assert (good.state, [part.state for part in good.parts]) == ("waiting", ["done", "waiting"])
        is_touched = place in ("parts", "parts/0", "parts/0/result.json")
        assert bad.parts[0].state != "done" if is_touched else bad.parts[0] == good.parts[0]


@states
def test_a_state_of_a_run_is_told_in_words(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (*(f"bad/{name}".rstrip("/") for name in OF_RUN), "runs.json"):
        with folder_for_all() as folder:
            found = look(folder, place, state, capsys)
        assert isinstance(found, Error)
        assert found.error.what
        assert found.error.fix
