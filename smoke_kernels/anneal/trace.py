"""The trace of an anneal: a sum of hashes of every spin word as every half-sweep finds it.

Nearly half of single wrong spins heal at the next sweep. The digest of the final spins does not see them, nor does one
in the middle. The trace does: each wrong word is read at least once before it is right again, and its hash is a
bijection of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoke_kernels.anneal.reference import anneal_reference
from smoke_kernels.hashing import WEYL, mix

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from smoke_kernels.anneal.lattice import Lattice


def sweep_trace(words: NDArray[np.uint32], size: int, key: int) -> int:
    """Return what one sweep adds: of (2, size, columns) words as it finds them, and its key.

    A half-sweep changes one colour and reads the words of that colour, so all are read as the sweep found them.
    """
    colours, rows, columns = np.ogrid[:2, :size, : words.shape[2]]
    sites = rows * size + columns * (size // words.shape[2]) + (rows + colours) % 2
    salts = mix(sites.astype(np.uint32) * np.uint32(WEYL) ^ np.uint32(key))
    return int(mix(words ^ salts).sum(dtype=np.uint64)) & 0xFFFFFFFF


def traced_reference(
    lattice: Lattice,
    spins: NDArray[np.uint32],
    parameters: NDArray[np.uint32],
    *,
    independent: bool,
    pack: Callable[[NDArray[np.uint32]], NDArray[np.uint32]],
) -> tuple[NDArray[np.uint32], int]:
    """Return the final (size, size) words of the numpy reference, and the trace of what `pack` makes of them."""
    trace = 0
    for row in range(len(parameters)):
        sweep = parameters[row : row + 1]
        trace += sweep_trace(pack(spins), lattice.size, int(sweep[0, 2]))
        spins = anneal_reference(lattice, spins, sweep, independent=independent)
    return spins, trace & 0xFFFFFFFF
