"""Models of users' own on a real GPU. Every program runs in a process of its own: other tests have the simulator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/anneal"
# Of examples/anneal/ising.py: sweeps of a step, sites, replicas
FLIPS_OF_A_STEP = 8 * 64 * 32
PART_OF_THE_HAND_WRITTEN = 1 / 3
EVALUATE = """
import sys
from pathlib import Path
import numpy as np
from gpuwork.anneal.chains import ChainRun
from gpuwork.anneal.compiled import make_functions
from gpuwork.anneal.model_file import read_model
from gpuwork.anneal.order import read_annealed_run

run = read_annealed_run(Path(sys.argv[1]))
model, _ = read_model(run.model)
chains = ChainRun(make_functions(model, path=str(run.model)), run.order.settings)
chains.compile()
with np.load(run.folder / "all.npz") as found:
    assert chains.evaluate(found["states"]).tobytes() == found["values"].tobytes()
print("same")
"""


def call(*argv: str | Path, code: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run(
        list(map(str, argv)),
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr[-2000:] or done.stdout[-2000:]
    return done.stdout


def anneal(folder: Path, model: Path, settings: dict[str, Any], *, code: int = 0) -> tuple[dict[str, Any], Path]:
    """What a run found, and its folder."""
    conf = folder.with_suffix(".yaml")
    conf.write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
    call(sys.executable, "-m", "gpuwork.anneal", "run", model, "--conf", conf, "--out", folder, code=code)
    (run,) = json.loads(call(sys.executable, "-m", "gpuwork.anneal", "show", folder))["runs"]
    found: dict[str, Any] = run
    return found, folder / model.stem


def arrays(folder: Path) -> dict[str, Any]:
    with np.load(folder / "all.npz") as loaded:
        return {name: loaded[name] for name in loaded.files}


@pytest.mark.parametrize("name", ["ackley", "rastrigin"])
def test_the_known_answers(name: str, tmp_path: Path) -> None:
    settings = {"max_steps": 10_000, "initial_temp": 10, "random_seed": -919, "thread_count": 16}
    run, folder = anneal(tmp_path / "out", EXAMPLES / f"{name}.py", settings)
    assert (run["simulated"], run["errors"]) == (False, 0)
    assert abs(arrays(folder)["values"].min()) < 0.1, "in float32, the least value can be just below 0"


@pytest.mark.parametrize("distribution", ["uniform", "normal"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_values_are_the_energies_of_their_states_bit_for_bit(precision: str, distribution: str, tmp_path: Path) -> None:
    settings = {"max_steps": 500, "initial_temp": 10, "thread_count": 1001, "precision": precision}
    _, folder = anneal(tmp_path / "out", EXAMPLES / "ackley.py", {**settings, "distribution": distribution})
    assert call(sys.executable, "-c", EVALUATE, folder) == "same\n"


@pytest.mark.parametrize("count", [1, 33, 100_003])
def test_the_same_seed_gives_the_same_bits_for_any_number_of_chains(count: int, tmp_path: Path) -> None:
    settings = {"max_steps": 300, "initial_temp": 10, "thread_count": count}
    first = arrays(anneal(tmp_path / "a", EXAMPLES / "rastrigin.py", settings)[1])
    second = arrays(anneal(tmp_path / "b", EXAMPLES / "rastrigin.py", {**settings, "threads_per_block": 96})[1])
    assert first["states"].shape == (count, 2)
    assert first["states"].tobytes() == second["states"].tobytes()
    assert len(np.unique(first["states"], axis=0)) == count, "no two chains share random numbers"


def test_a_division_by_zero_is_told_with_the_number_of_its_chain(tmp_path: Path) -> None:
    text = (EXAMPLES / "rastrigin.py").read_text()
    model = tmp_path / "zero.py"
    model.write_text(text.replace("    return energy", "    return energy + 0.0 / (0.0 if state[0] > 4.0 else 1.0)"))
    settings = {"max_steps": 50, "initial_temp": 1e6, "thread_count": 64}
    run, folder = anneal(tmp_path / "out", model, settings, code=1)
    assert 0 < run["errors"] <= 64
    bad = [trouble["chain"] for trouble in run["troubles"]]
    assert set(arrays(folder)["stopped"][bad].tolist()) == {"bad_energy"}
    assert np.isfinite(arrays(folder)["values"]).any()


def test_the_spin_glass_as_a_model_has_a_third_of_the_rate_of_the_hand_written_kernel(tmp_path: Path) -> None:
    smoke = json.loads(call(sys.executable, "-m", "smoke_kernels", "anneal", "--json"))
    hand_written = max(result["rate"]["median"] for result in smoke["results"])
    assert {result["rate"]["unit"] for result in smoke["results"]} == {"flips/ns"}
    settings = {"max_steps": 3000, "initial_temp": 3, "thread_count": 67_584}
    run, _ = anneal(tmp_path / "out", EXAMPLES / "ising.py", settings)
    flips_ns = sum(part["rate"] for part in run["parts"]) * FLIPS_OF_A_STEP / 1e9
    assert flips_ns >= PART_OF_THE_HAND_WRITTEN * hand_written, f"{flips_ns:.0f} of {hand_written:.0f} flips/ns"
