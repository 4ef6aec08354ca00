"""The bundled spin glass as a user's model has the energies and the ground state of the hand-written kernel's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from smoke_kernels.anneal.lattice import energies, planted_lattice
from tests.unit.gpuwork.anneal.conftest import anneal

ISING = (Path(__file__).parents[4] / "examples/anneal/ising.py").read_text()
LATTICE = planted_lattice(8, 1)
SETTINGS = {"thread_count": 2, "initial_temp": 3.0}


def mean_energy(state: np.typing.NDArray[np.float64]) -> float:
    """By the kernel's own reference."""
    return float(energies(LATTICE, state.astype(np.uint32).reshape(8, 8)).mean())


def test_the_energies_are_those_of_the_lattice() -> None:
    found = anneal(ISING, max_steps=1, **SETTINGS)  # type: ignore[arg-type]
    words = np.random.default_rng(1).integers(0, 2**32, (5, 64)).astype(np.float64)
    assert found.run.evaluate(words).tolist() == [mean_energy(state) for state in words]
    assert found.chains.values.tolist() == [mean_energy(state) for state in found.chains.states]


@pytest.mark.slow
def test_it_reaches_the_ground_state() -> None:
    found = anneal(ISING, max_steps=60, **SETTINGS).chains  # type: ignore[arg-type]
    assert found.values.min() < LATTICE.ground_energy + 6
    best = found.states[found.values.argmin()].astype(np.uint32).reshape(8, 8)
    assert energies(LATTICE, best).min() == LATTICE.ground_energy == -70
    assert (energies(LATTICE, best) >= LATTICE.ground_energy).all()
