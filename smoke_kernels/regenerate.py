"""Regenerate data/golden.json from numpy alone: `python3 -m smoke_kernels.regenerate > smoke_kernels/data/golden.json`.

Takes about two minutes. A digest changes only when its problem does: nodes must get the kernels and the table together.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

import numpy as np

from smoke_kernels.anneal.lattice import initial_spins, planted_lattice
from smoke_kernels.anneal.problem import ProblemKey, golden_values
from smoke_kernels.anneal.schedule import sweep_parameters
from smoke_kernels.hashing import counter_words, digest, render_digest
from smoke_kernels.matmul.inputs import exact_product, factors
from smoke_kernels.membw.pattern import STREAM
from smoke_kernels.options import DEFAULT_SEED

MATMUL_SIZES: Final = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
ANNEAL_PROBLEMS: Final = (
    (8, 32, "shared"),
    (16, 64, "shared"),
    (32, 200, "shared"),
    (64, 1000, "shared"),
    (2048, 64, "shared"),
    (4096, 64, "shared"),
    (8, 32, "independent"),
    (16, 64, "independent"),
    (64, 1000, "independent"),
    (2048, 8, "independent"),
    (64, 4, "one replica"),
    (64, 16, "one replica"),
    (64, 1000, "one replica"),
    (2048, 32, "one replica"),
    (4096, 32, "one replica"),
)
"""Size, sweeps, and whose the random numbers are: all 32 replicas', each replica's, or those of one replica alone."""
MEMBW_SIZES: Final = (16 << 10, 64 << 10, 1 << 20, 256 << 20, 1 << 30)


def matmul_entry(size: int, seed: int) -> dict[str, Any]:
    """Return the golden entry of one product."""
    product = exact_product(*factors(size, seed))
    return {"seed": seed, "size": size, "digest": render_digest(digest(product.view(np.uint32)))}


def anneal_entry(size: int, sweeps: int, seed: int, *, randoms: str = "shared") -> dict[str, Any]:
    """Return the golden entry of one anneal, with the best energy that its final spins have."""
    lattice = planted_lattice(size, seed)
    parameters = sweep_parameters(sweeps, seed)
    names = {"independent": randoms == "independent", "one_replica": randoms == "one replica"}
    key = ProblemKey(size=size, sweeps=sweeps, seed=seed, **names)
    values = golden_values(key, lattice, initial_spins(size, seed), parameters)
    return {"seed": seed, "size": size, "sweeps": sweeps, **names, **values, "ground_energy": lattice.ground_energy}


def membw_entry(size: int, seed: int) -> dict[str, Any]:
    """Return the golden entry of one copy of `size` bytes."""
    words = counter_words(size // 4, seed=seed, stream=STREAM)
    return {"seed": seed, "size": size, "digest": render_digest(digest(words))}


def main() -> None:
    """Print the whole table, one entry a line."""
    table = {
        "matmul": [matmul_entry(size, DEFAULT_SEED) for size in MATMUL_SIZES],
        "anneal": [
            anneal_entry(size, sweeps, DEFAULT_SEED, randoms=randoms) for size, sweeps, randoms in ANNEAL_PROBLEMS
        ],
        "membw": [membw_entry(size, DEFAULT_SEED) for size in MEMBW_SIZES],
    }
    kernels = []
    for kernel, entries in table.items():
        lines = ",\n".join(f"    {json.dumps(entry)}" for entry in entries)
        kernels.append(f'  "{kernel}": [\n{lines}\n  ]')
    sys.stdout.write("{\n" + ",\n".join(kernels) + "\n}\n")


if __name__ == "__main__":
    main()
