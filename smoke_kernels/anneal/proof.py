"""The proof that an anneal is right: energies recomputed on the host against the planted ground state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smoke_kernels.anneal.lattice import REPLICAS, energies
from smoke_kernels.result import Check

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoke_kernels.anneal.lattice import Lattice


def check_traces(traces: list[int], golden: int | None) -> tuple[Check, ...]:
    """Compare every traced run with the golden trace; nothing where none was traced."""
    right = sum(1 for trace in traces if trace == golden)
    evidence = f"{right} of {len(traces)} traces are {golden:08x}" if golden is not None else "there is no golden trace"
    return (Check(name="trace", passed=right == len(traces), evidence=evidence),) if traces else ()


def check_energy(
    lattice: Lattice, spins: NDArray[np.uint32], *, expected_best: int | None = None, replicas: int = REPLICAS
) -> tuple[Check, dict[str, Any]]:
    """Require the planted ground state energy of the best replica; `spins` are (size, size) words.

    Only where the numpy reference itself does not get there (`expected_best`: too few sweeps) is its energy enough.
    No state lies below the ground state, so an energy below it means that the couplings are not the planted ones.
    """
    found = energies(lattice, spins, replicas=replicas)
    best, ground = int(found.min()), lattice.ground_energy
    required = ground if expected_best is None else expected_best
    reached = int(np.count_nonzero(found == ground))
    evidence = f"best energy {best}, ground state {ground}, reached by {reached} of {found.size} replicas"
    if best < ground:
        evidence += ": below the ground state, so the couplings are corrupted"
    elif best == required != ground:
        evidence += ": the reference does not reach it in this number of sweeps either"
    details = {"best": best, "ground_state": ground, "replicas_in_ground_state": reached}
    return Check(name="energy", passed=best == required and best >= ground, evidence=evidence), details
