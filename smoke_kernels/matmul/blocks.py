"""Blocks that all make the same small product: each is held against one reference, and a wrong one is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from smoke_kernels.backend import SIMULATED, poison, poisoned
from smoke_kernels.multiprocessors import count_multiprocessors, owners_of
from smoke_kernels.result import Check

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from smoke_kernels.backend import DeviceArray
    from smoke_kernels.multiprocessors import Census


RUNS: Final = 1 if SIMULATED else 4
BLOCKS_EACH: Final = 2 if SIMULATED else 8
"""Blocks for each multiprocessor of a GPU: with 256 threads each it has no room for more."""


def check_blocks(
    census: Census,
    launch: Callable[[int, DeviceArray, DeviceArray], None],
    expected: NDArray[np.uint32],
    *,
    name: str,
    what: str,
) -> Check:
    """Launch some times and require the same bits of every block.

    Args:
        census: Learns who took part, and who was wrong.
        launch: Makes the product in so many blocks, in the first array, and leaves in the second one who ran each.
        expected: What a block leaves, as flat words.
        name: Of the check.
        what: What was asked of the blocks, for the evidence.
    """
    blocks = BLOCKS_EACH * (count_multiprocessors() or 1)
    words, owners = poisoned(expected.size * blocks), owners_of(blocks)
    bad = 0
    for _ in range(RUNS):
        poison(words)
        launch(blocks, words, owners)
        wrong = np.flatnonzero((words.copy_to_host().reshape(blocks, -1) != expected).any(axis=1)).tolist()
        ran = owners.copy_to_host()
        census.add(ran)
        census.blame(ran, wrong)
        bad += len(wrong)
    asked = RUNS * blocks
    return Check(name=name, passed=not bad, evidence=f"{asked - bad} of {asked} blocks agree in {what}")
