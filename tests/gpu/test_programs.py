"""CUDA programs on a real GPU: the kernels, and not the stand-in, give the answers."""

from __future__ import annotations

import csv
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from gpuwork.hardware import ask_cuda_driver
from gpuwork.programs.build import library_of
from gpuwork.programs.config import read_config
from gpuwork.programs.old_gpu import build_old
from gpuwork.programs.toolkit import find_toolkit
from tests.fakes.programs import CUDA, ROOT, Programs, write_program, write_table

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.gpu

KMEANS = ROOT / "examples/kmeans"
KERNEL = """\
#include "columns.h"
#include <cuda_runtime.h>

__global__ void add_rows(Dataset data, AggregationResult result) {
    long step = (long)gridDim.x * blockDim.x;
    for (long row = (long)blockIdx.x * blockDim.x + threadIdx.x; row < data.rows; row += step)
        for (long column = 0; column < data.columns; column++)
            atomicAdd(&result.sums[column], data.values[row * data.columns + column]);
}
extern "C" int run_iteration(int block_size, GlobalParams *, Dataset *data, GlobalState *, AggregationResult *result) {
    add_rows<<<64, block_size>>>(*data, *result);
    result->rows += data->rows;
    return 0;
}
"""
WITH_KERNEL = KERNEL + CUDA[CUDA.index('extern "C" int setup_dataset') :]


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    pytest.importorskip("distributed", reason="Python finds no Dask (package distributed), which runs programs")
    return Programs(tmp_path)


def target() -> str:
    gpu = ask_cuda_driver()[0]
    return f"sm_{gpu.major}{gpu.minor}"


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_the_sums_of_columns_are_those_of_the_table(workers: int, programs: Programs, tmp_path: Path) -> None:
    program = write_program(tmp_path / "p", cuda=WITH_KERNEL)
    sums = write_table(tmp_path / "t.csv", 1003, 3, seed=workers)
    document = programs("run", program, "--data", tmp_path / "t.csv", "--workers", str(workers))
    assert document["result"]["state"]["sums"] == sums, "exact: the numbers are multiples of 1/64"
    assert {worker["built_for"] for worker in document["workers"]} == {target()}
    assert all(worker["gpu"] for worker in document["workers"])


def test_what_a_kernel_does_wrong_is_told_in_words(programs: Programs, tmp_path: Path) -> None:
    broken = WITH_KERNEL.replace("add_rows<<<64, block_size>>>", "add_rows<<<64, 1 << 20>>>")
    program = write_program(tmp_path / "p", cuda=broken)
    write_table(tmp_path / "t.csv", 10, 3, seed=1)
    error = programs("run", program, "--data", tmp_path / "t.csv", code=1)["error"]
    # By CUDA's release, the runtime judges a launch (9) or the driver does (1).
    assert re.match(r"run_iteration failed with (9: invalid configuration|1: invalid) argument", error["evidence"])


def test_kmeans_keeps_its_invariants(programs: Programs) -> None:
    with (KMEANS / "points.csv").open() as file:
        rows = [[float(row["x"]), float(row["y"])] for row in csv.DictReader(file)]
    document = programs(
        "run", KMEANS / "program", "--data", KMEANS / "points.csv", "--set", "clusters=3", "--workers", "2"
    )
    clusters = document["result"]["clusters"]
    assert sum(cluster["rows"] for cluster in clusters) == len(rows)
    for column in range(2):
        weighted = sum(cluster["rows"] * cluster["centroid"][column] for cluster in clusters)
        assert weighted == pytest.approx(sum(row[column] for row in rows))


def test_a_separated_program_gives_the_same(programs: Programs, tmp_path: Path) -> None:
    """What is built by NVRTC of CUDA 12 and g++ for this GPU, in place of what nvcc builds."""
    toolkit = find_toolkit()
    if toolkit.old is None:
        pytest.skip("no NVRTC of CUDA 12")
    program = write_program(tmp_path / "p", cuda=WITH_KERNEL)
    sums = write_table(tmp_path / "t.csv", 1003, 3, seed=9)
    first = programs("run", program, "--data", tmp_path / "t.csv")
    config, _, _ = read_config(program)
    assert config is not None
    assert build_old(program, config, target(), part=tmp_path / "old.so", toolkit=toolkit) == []
    built = library_of(programs.store / first["program"]["hash"] / "built", target())
    shutil.copy(tmp_path / "old.so", built)
    assert b"libcudart.so.12" in built.read_bytes()
    assert programs("run", program, "--data", tmp_path / "t.csv")["result"]["state"]["sums"] == sums
