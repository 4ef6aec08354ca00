"""Annealing and CUDA programs as jobs of real workers, as they are jobs of Slurm in tests/unit/cli."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from gpuwork.anneal.merging import merge_within
from gpuwork.anneal.prepare import ModelsOrder, prepare
from tests.fakes.programs import ROOT, Programs, write_program, write_table
from tests.unit.gpuwork.anneal.conftest import anneal, changed, read_npz
from tests.unit.gpuwork.conftest import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.worker_bed import WorkerBed
    from tests.unit.gpuwork.conftest import Jobs

pytestmark = pytest.mark.slow  # real workers, and what they wait for
needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None and "CI" not in os.environ, reason="Dask is an optional extra"
)

ONE, TWO = "GPU-0001", "GPU-0002"


@pytest.fixture(autouse=True)
def as_in_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What workers of nodes with simulated GPUs have."""
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_a_part_whose_worker_is_killed_is_run_again_elsewhere(bed: WorkerBed, queued: Jobs, tmp_path: Path) -> None:
    slow = changed(
        "return old_temp * 0.99",
        "waste = 0.0\n    for i in range(20000):\n        waste += i\n    return old_temp * 0.99",
    )
    (tmp_path / "line.py").write_text(slow)
    (tmp_path / "run.yaml").write_text("max_steps: 60\ninitial_temp: 1.0\nthread_count: 10\n")
    store = bed.shared / "anneal"
    order = ModelsOrder(models=[tmp_path / "line.py"], configurations=[tmp_path / "run.yaml"])
    (run,) = prepare(order, store, parts=2)
    bed.start(ONE)
    second = bed.start(TWO)
    queued.submit(sys.executable, "-m", "gpuwork.anneal", "part", str(store), "{n}", count=2, gpus=1)
    wait_until((run.folder / "division.json").exists, "the chains are not divided")
    os.kill(second.pid, signal.SIGKILL)
    assert [row["state"] for row in queued.wait("1")] == ["done", "done"]
    assert sorted(row["tries"] for row in queued.rows("1")) == [1, 2]
    merge_within(run)
    found = read_npz(run.folder / "all.npz")
    assert found["states"].tobytes() == anneal(slow, thread_count=10, max_steps=60).chains.states.tobytes()


@needs_dask
def test_a_program_meets_on_workers(bed: WorkerBed, queued: Jobs, tmp_path: Path) -> None:
    programs = Programs(bed.shared)
    sums = write_table(tmp_path / "t.csv", 17, 3, seed=4)
    prepared = programs(
        *("prepare", write_program(tmp_path / "p"), "--data", tmp_path / "t.csv", "--workers", "2"),
        *("--runs", bed.shared / "runs", "--set", "max_iterations=3"),
    )
    for gpu in (ONE, TWO):
        bed.start(gpu)
    command = ("-m", "gpuwork.programs", "--store", str(programs.store), "work", prepared["run"], "{n}")
    queued.submit(sys.executable, *command, count=2, gpus=1)
    assert [row["state"] for row in queued.wait("1")] == ["done", "done"]
    end = programs("look", prepared["run"])["end"]
    assert end["result"]["state"]["sums"] == sums, json.dumps(end)
    assert sum(worker["rows"] for worker in end["workers"]) == 17
    assert [worker["number"] for worker in end["workers"]] == [0, 1]
    left = {path.name for path in (bed.shared / "runs").glob("*/*")}
    assert not left & {"key.pem", "table.bin"}
