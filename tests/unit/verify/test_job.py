"""What a Slurm job sees: its text is run here as it is run there, with a library that stands in for CUDA."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from gpuprov.gpu.observe import observe
from gpuprov.gpu.simulate import node_document
from gpuprov.roles.slurm.job import render_uuid
from gpuprov.roles.slurm.questions import job_program
from gpuprov.verify.checks.nvml import wheel_major
from tests.fakes.places import NOWHERE

pytestmark = pytest.mark.slow

STUB = Path(__file__).parents[2] / "native" / "cuda_stub.c"
STEM = "GPU-abababab-abab-abab-abab-ababababab"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda")
    command = ["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(folder / "libcuda.so.1"), str(STUB)]
    subprocess.run(command, check=True, timeout=60)
    return folder


def see(simulation: object, folder: Path, **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-I", "-c", job_program(), json.dumps(simulation)],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder), "SLURMD_NODENAME": "c001", **environment},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def simulated(count: int) -> dict[str, Any]:
    document = dict(observe(root=NOWHERE, mode="simulated").document or {})
    uuids = [gpu["uuid"] for gpu in document["gpus"]][2 : 2 + count]
    source = (resources.files("gpuprov.gpu") / "simulate.py").read_text()
    return {"source": source, "document": node_document(document, uuids)}


def test_cuda_tells_the_gpus_of_the_job(folder: Path) -> None:
    seen = see(None, folder, CUDA_VISIBLE_DEVICES="0,1")
    told = {"node": "c001", "visible": "0,1", "uuids": [f"{STEM}00", f"{STEM}01"], "problem": "", "unasked": {}}
    assert {**seen, "untried": ""} == {**told, "untried": ""}
    assert "srun" in seen["untried"], "there is no Slurm here"
    assert see(None, folder, STUB_CUDA_COUNT="1")["uuids"] == [f"{STEM}00"]
    assert see(None, folder, STUB_CUDA_COUNT="0")["uuids"] == []


@pytest.mark.parametrize(("code", "says"), [("999", "cuInit says 999"), ("100", "cuInit says 100")])
def test_a_cuda_that_does_not_start_is_a_problem(folder: Path, code: str, says: str) -> None:
    seen = see(None, folder, STUB_CUDA_INIT=code)
    assert seen["uuids"] == []
    assert says in seen["problem"]


def test_without_cuda_there_is_a_problem(tmp_path: Path) -> None:
    assert "libcuda.so.1" in see(None, tmp_path)["problem"]


def test_simulated_gpus_are_told_by_the_order_that_the_node_has(folder: Path) -> None:
    simulation = simulated(2)
    uuids = [gpu["uuid"] for gpu in simulation["document"]["gpus"]]
    assert see(simulation, folder, CUDA_VISIBLE_DEVICES="0,1")["uuids"] == uuids
    assert see(simulation, folder, CUDA_VISIBLE_DEVICES="1")["uuids"] == uuids[1:]
    assert see(simulation, folder, CUDA_VISIBLE_DEVICES="2")["problem"].startswith("NVMLError")
    assert see(simulation, folder, CUDA_VISIBLE_DEVICES="")["uuids"] == []


def test_a_uuid_is_written_as_nvml_writes_it() -> None:
    assert render_uuid(bytes(range(16))) == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"


@pytest.mark.parametrize(
    ("name", "major"),
    [
        ("nvidia_cuda_nvcc_cu12-12.9.86", 12),
        ("nvidia_cuda_runtime-13.0.96", 13),
        ("nvidia_cuda_nvrtc_cu11-11.8.89", 11),
        ("nvidia_cuda_cccl-13.0.85", None),
        ("nvidia_ml_py-13.580.82", None),
    ],
)
def test_the_cuda_of_a_package(name: str, major: int | None) -> None:
    assert wheel_major(name) == major


def test_a_step_that_asks_for_no_gpu_tries_those_of_the_node(folder: Path, tmp_path: Path) -> None:
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\n[ "$1 $2" = \'--overlap --gres=none\' ] && shift 5 && exec "$@"\n')
    srun.chmod(0o755)
    seen = see(None, folder, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert seen["untried"] == ""
    assert isinstance(seen["unasked"], dict)
