"""The files of examples/celery, unchanged, with real workers."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fakes.worker_bed import ROOT

if TYPE_CHECKING:
    from tests.fakes.worker_bed import WorkerBed

EXAMPLE = ROOT / "examples/celery"
# What a node has, and this machine has not: a broker that Celery knows, and the file with its URL.
START = (
    "import pathlib, runpy, sys; from gpuwork import broker_file; from tests.fakes.brokerfolder import register; "
    "register(); broker_file.BROKER = pathlib.Path(sys.argv[1]); sys.path[0] = ''; "
    "runpy.run_path('client.py', run_name='__main__')"
)


@pytest.mark.slow
def test_each_of_eight_tasks_is_run_once(bed: WorkerBed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")  # as in nodes with simulated GPUs
    project = Path(shutil.copytree(EXAMPLE, tmp_path / "app"))
    gpus = ("GPU-0001", "GPU-0002")
    for gpu in gpus:
        bed.start(gpu, "--project", str(project), "--app", "app")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START, str(bed.url_file)], cwd=project, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = [ast.literal_eval(line) for line in done.stdout.splitlines()]
    assert Counter(result["num_hidden_units"] for result in results) == {128: 4, 256: 4}
    assert {result["gpu"] for result in results} == {"SIMULATED"}
    assert {result["uuid"] for result in results} <= {*gpus}
    logs = "".join(map(bed.log, gpus))
    assert [logs.count(f"num_hidden_units={units} CUDA=True GPU=SIMULATED") for units in (128, 256)] == [4, 4]
