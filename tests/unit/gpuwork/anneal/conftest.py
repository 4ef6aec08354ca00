"""Models that are annealed by numba's simulator, in this process or in others."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from gpuwork.anneal.model_file import parse_model
from gpuwork.anneal.settings import check_settings
from gpuwork.anneal.validator import find_model_faults

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.anneal_settings import AnnealSettings
    from gpuwork.anneal.chains import ChainRun, Chains

_before = os.environ.get("NUMBA_ENABLE_CUDASIM")
os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
try:
    # numba reads the variable once, when it is imported.
    backend = importlib.import_module("gpuwork.anneal.backend")
finally:
    if _before is None:
        del os.environ["NUMBA_ENABLE_CUDASIM"]
    else:
        os.environ["NUMBA_ENABLE_CUDASIM"] = _before

# A walk on a line, whose energy is the square: quick, and it always accepts what is better.
LINE = """\
import math

dimensions = 1
# -- Globals
WIDTH = 4.0
# -- Globals

def empty_state():
    return [0.0, 0.0]

def initialize(state, randoms):
    state[0] = WIDTH * randoms[0]
    state[1] = 1.0

def generate_next(state, new_state, randoms, step):
    new_state[0] = state[0] + randoms[0] - 0.5

def cool(initial_temp, old_temp, step):
    return old_temp * 0.99

def evaluate(state):
    return state[0] * state[0] + state[1]

def acceptance_func(e_old, e_new, temp, rnd):
    return e_new < e_old or rnd < math.exp((e_old - e_new) / temp)
"""


@dataclass(frozen=True)
class Annealed:
    """What became of a model, and what ran it."""

    chains: Chains
    run: ChainRun
    settings: AnnealSettings


def prepare_run(text: str, **settings: object) -> tuple[ChainRun, AnnealSettings]:
    """A model ready to run in this process."""
    chains = importlib.import_module("gpuwork.anneal.chains")
    compiled = importlib.import_module("gpuwork.anneal.compiled")
    model, faults = parse_model(text, file="model.py")
    assert model is not None
    assert [*faults, *find_model_faults(model)] == []
    told = {"max_steps": 50, "thread_count": 4, "initial_temp": 1.0, **settings}
    found, faults = check_settings({**model.numbers, **{name: (value, 1) for name, value in told.items()}}, file="c")
    assert faults == []
    assert found is not None
    run: ChainRun = chains.ChainRun(compiled.make_functions(model, path="model.py"), found)
    run.compile()
    return run, found


def anneal(text: str = LINE, *, first: int = 0, count: int | None = None, **settings: object) -> Annealed:
    """Anneal a model in this process."""
    run, found = prepare_run(text, **settings)
    chains = run.run(first=first, chains=count or found.thread_count, tell=lambda _step, _best: None)
    return Annealed(chains, run, found)


def changed(old: str, new: str, text: str = LINE) -> str:
    """The model with another line."""
    assert old in text
    return text.replace(old, new)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is started has the simulator."""
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_npz(path: Path) -> dict[str, Any]:
    """Every array of a file."""
    import numpy as np

    with np.load(path, allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}
