"""The kernels of the examples are compiled for real GPUs, on a machine without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import cycle
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
EXAMPLES = sorted((ROOT / "examples/anneal").glob("*.py"))
LIBRARY_MISSING = "DynamicLibNotFoundError"
# In a process of its own, without the simulator. numba asks for a GPU's capability where a function calls another one.
COMPILE = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
import numba.cuda.compiler, numba.cuda.dispatcher
from numba import types
from numba.cuda.random import xoroshiro128p_type
from gpuwork.anneal.backend import SIMULATED, cuda
from gpuwork.anneal.compiled import make_functions
from gpuwork.anneal.kernel import make_kernels
from gpuwork.anneal.model_file import read_model
from gpuwork.anneal.settings import check_settings

assert not SIMULATED
capability = (9, 0)
for module in (numba.cuda.compiler, numba.cuda.dispatcher):
    module.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
model, _ = read_model(Path(sys.argv[1]))
told = {**model.numbers, **{name: (value, 1) for name, value in json.loads(sys.argv[2]).items()}}
settings, faults = check_settings(told, file="test")
assert not faults, faults
kernels = make_kernels(make_functions(model, path=sys.argv[1]), settings)
real = getattr(types, settings.precision)
flat, states = real[::1], real[:, ::1]
numbers = (types.int64, types.int64, real, real, real)
chain = (xoroshiro128p_type[::1], states, states, flat, flat, flat, types.int8[::1], types.int64[::1], *numbers)
for kernel, signature in ((kernels.anneal, chain), (kernels.evaluate, (states, flat))):
    text, _ = cuda.compile_ptx(kernel.py_func, types.void(*signature), cc=capability)
    assert ".entry" in text
    assert "bar.sync" not in text, "a barrier that not all threads reach"
print("compiled")
"""


# Each example once, and each of these with one of them: what they change is the kernels' own, not the model's.
SETTINGS: tuple[dict[str, object], ...] = (
    {"precision": "float32", "distribution": "uniform"},
    {"precision": "float64", "distribution": "normal"},
    {"precision": "float32", "replicas": 4, "exchange_every": 9, "min_temp": 1, "distribution": "normal"},
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("path", "settings"), [*zip(EXAMPLES, cycle(SETTINGS))], ids=[path.stem for path in EXAMPLES])
def test_it_compiles(path: Path, settings: dict[str, object]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(path), json.dumps(settings)],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if LIBRARY_MISSING in done.stderr and "CI" not in os.environ:
        pytest.skip("NVIDIA's compiler is not installed")
    assert (done.returncode, done.stdout) == (0, "compiled\n"), done.stderr[-3000:]
