"""Run the kernels of these tests on numba's simulator, without the choice leaking into other tests of the process."""

from __future__ import annotations

import importlib
import os

import pytest

_before = os.environ.get("NUMBA_ENABLE_CUDASIM")
os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
try:
    # numba reads the variable once, when it is imported.
    backend = importlib.import_module("smoke_kernels.backend")
finally:
    if _before is None:
        del os.environ["NUMBA_ENABLE_CUDASIM"]
    else:
        os.environ["NUMBA_ENABLE_CUDASIM"] = _before


@pytest.fixture(autouse=True)
def _simulator() -> None:
    assert backend.SIMULATED, "numba was imported without the simulator before these tests were collected"
