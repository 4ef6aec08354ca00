"""What the benchmark computes in numpy are the chains of the model."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.anneal_models import INITIAL_TEMP, MODEL, SEED, anneal_in_numpy
from tests.unit.gpuwork.anneal.conftest import anneal


@pytest.mark.slow
def test_the_chains_in_numpy_are_those_of_the_kernel() -> None:
    settings = {"max_steps": 120, "initial_temp": INITIAL_TEMP, "random_seed": SEED, "thread_count": 8}
    values = anneal(MODEL.read_text(), **settings).chains.values  # type: ignore[arg-type]
    assert np.abs(anneal_in_numpy(8, 120) - values).max() < 1e-4
