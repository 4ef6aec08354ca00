"""The cooling schedule: acceptance thresholds as integers, from a shipped table."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Final

import numpy as np

from smoke_kernels.hashing import WEYL, mix, mix_one

if TYPE_CHECKING:
    from numpy.typing import NDArray


REPLICA_STEP: Final = 0x3C6EF373
"""With a random number for every replica, replica r adds r times this to the site's counter; odd, so all 32 differ."""


def sweep_parameters(sweeps: int, seed: int) -> NDArray[np.uint32]:
    """Return what the device needs for each sweep, shape (sweeps, 3): accept one broken bond, accept none, random key.

    A flip that raises the energy by dE is accepted when a random word is below 2**32 exp(-dE / T), rounded down.
    """
    table = np.array(
        json.loads((resources.files("smoke_kernels") / "data" / "thresholds.json").read_text())["thresholds"], np.uint32
    )
    steps = np.arange(sweeps, dtype=np.int64) * len(table) // sweeps
    keys = mix(np.arange(sweeps, dtype=np.uint32) * np.uint32(WEYL) ^ np.uint32(mix_one(~seed)))
    return np.column_stack([table[steps], keys]).astype(np.uint32)
