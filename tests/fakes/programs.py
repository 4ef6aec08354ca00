"""Programs for the tests, written into folders: sums of columns, whole or with something wrong."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CONFIG = """\
info: {name: columns, version: "1.0", py_c_extention: false}
sources: {python: columns.py, header: columns.h, cuda: columns.cu}
"""
HEADER = """\
typedef struct { long max_iterations; } GlobalParams;
typedef struct { long rows; long columns; double *values; } Dataset;
typedef struct { long columns; long rows; double *sums; } AggregationResult;
typedef struct { int done; long iteration; long columns; double *sums; } GlobalState;
extern "C" {
int run_iteration(int block_size, GlobalParams *params, Dataset *data, GlobalState *state, AggregationResult *result);
int setup_dataset(Dataset *data);
int setup_global_state(GlobalState *state);
int setup_aggregation_result(AggregationResult *result);
int free_dataset(Dataset *data);
int free_global_state(GlobalState *state);
int free_aggregation_result(AggregationResult *result);
}
"""
CUDA = """\
#include "columns.h"
#include <cuda_runtime.h>

extern "C" int run_iteration(int, GlobalParams *, Dataset *data, GlobalState *, AggregationResult *result) {
    for (long row = 0; row < data->rows; row++)
        for (long column = 0; column < data->columns; column++)
            result->sums[column] += data->values[row * data->columns + column];
    result->rows += data->rows;
    return 0;
}
extern "C" int setup_dataset(Dataset *d) { return cudaMallocManaged(&d->values, 8 * d->rows * d->columns); }
extern "C" int setup_global_state(GlobalState *s) { return cudaMallocManaged(&s->sums, 8 * s->columns); }
extern "C" int setup_aggregation_result(AggregationResult *r) { return cudaMallocManaged(&r->sums, 8 * r->columns); }
extern "C" int free_dataset(Dataset *d) { return cudaFree(d->values); }
extern "C" int free_global_state(GlobalState *s) { return cudaFree(s->sums); }
extern "C" int free_aggregation_result(AggregationResult *r) { return cudaFree(r->sums); }
"""
PYTHON = """\
from ctypes import POINTER, Structure, addressof, c_double, c_int, c_long, cast


class GlobalParams(Structure):
    _fields_ = [("max_iterations", c_long)]
    defaults = {"max_iterations": 1}


class Dataset(Structure):
    _fields_ = [("rows", c_long), ("columns", c_long), ("values", POINTER(c_double))]
    dynamic = {"values": ("rows", "columns")}


class AggregationResult(Structure):
    _fields_ = [("columns", c_long), ("rows", c_long), ("sums", POINTER(c_double))]
    dynamic = {"sums": ("columns",)}


class GlobalState(Structure):
    _fields_ = [("done", c_int), ("iteration", c_long), ("columns", c_long), ("sums", POINTER(c_double))]
    dynamic = {"sums": ("columns",)}


def get_dataset_slice(dataset, start, stop):
    first = addressof(dataset.values.contents) + start * dataset.columns * 8
    return Dataset(rows=stop - start, columns=dataset.columns, values=cast(first, POINTER(c_double)))


def init_global_state(params, dataset):
    return GlobalState(columns=dataset.columns, sums=(c_double * dataset.columns)())


def init_aggregation_result(params, state):
    return AggregationResult(columns=state.columns, sums=(c_double * state.columns)())


def aggregate(one, other):
    for column in range(one.columns):
        one.sums[column] += other.sums[column]
    one.rows += other.rows
    return one


def update_global_state(params, state, result):
    for column in range(state.columns):
        state.sums[column] = result.sums[column]
    state.iteration += 1
    state.done = state.iteration >= params.max_iterations
"""
LAUNCH = """\
__global__ void add_rows(Dataset data) { data.values[0] += threadIdx.x; }
static void launch(Dataset data) { add_rows<<<1, 32>>>(data); }
"""


def write_program(folder: Path, **changed: str) -> Path:
    """The program in a folder, with some files as given: `config`, `header`, `cuda`, `python` or `runner`."""
    texts = {"config": CONFIG, "header": HEADER, "cuda": CUDA, "python": PYTHON, **changed}
    names = {"config": "config.yaml", "header": "columns.h", "cuda": "columns.cu", "python": "columns.py"}
    folder.mkdir(parents=True, exist_ok=True)
    for kind, text in texts.items():
        (folder / names.get(kind, f"{kind}.py")).write_text(text)
    return folder


def write_table(path: Path, rows: int, columns: int, *, seed: int) -> list[float]:
    """A table of numbers drawn at random, of which the sums are exact in any order; the sums of its columns."""
    draw = random.Random(seed)
    table = [[draw.randrange(-(2**20), 2**20) / 64 for _ in range(columns)] for _ in range(rows)]
    path.write_text("".join(",".join(map(repr, row)) + "\n" for row in table))
    return [sum(column) for column in zip(*table, strict=True)]


# Nothing here runs on a GPU, and nvcc takes as long as all the rest of a run. tests/unit/gpuwork/test_program_check.py
# has what it compiles.
WITHOUT_NVCC = """\
import sys
from gpuwork.programs import cli, toolkit
toolkit._find_nvcc = lambda: None
sys.exit(cli.main(sys.argv[1:]))
"""


class Programs:
    """Types `python3 -m gpuwork.programs` where there is no nvcc; what it prints, as a document."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store"
        self.said = ""

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Begin, and go on."""
        argv = [sys.executable, "-c", WITHOUT_NVCC, "--store", str(self.store), *map(str, arguments)]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(argv, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process: subprocess.Popen[str], *, code: int = 0) -> dict[str, Any]:
        """What it printed when it has ended."""
        out, self.said = process.communicate(timeout=120)
        assert process.returncode == code, out + self.said
        document: dict[str, Any] = json.loads(out) if out else {}
        return document

    def __call__(self, *arguments: str | Path, code: int = 0) -> dict[str, Any]:
        return self.finish(self.start(*arguments), code=code)

    def faults(self, program: Path, *arguments: str) -> list[str]:
        """What `check` finds, without what is allowed."""
        found = self("check", program, *arguments, code=2)["faults"]
        return [f"{fault['file']}:{fault['line'] or ''} {fault['where']}: {fault['message']}" for fault in found]
