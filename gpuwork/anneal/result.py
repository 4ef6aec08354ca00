"""What chains found, as arrays: of a part, of some parts together, of a whole run. Merging is pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpuwork.anneal.arrays_file import read_arrays, write_arrays

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from gpuwork.anneal.chains import Chains

TRACED: Final = 64  # chains whose best values over time are kept
_WANTED: Final = {
    "chains": ("i", 1),
    "values": ("f", 1),
    "states": ("f", 2),
    "steps": ("i", 1),
    "temperatures": ("f", 1),
    "status": ("i", 1),
    "sampled_steps": ("i", 1),
    "traced_chains": ("i", 1),
    "trace": ("f", 2),
}


@dataclass(frozen=True, kw_only=True)
class Result:
    """Some chains in the order of their numbers.

    Attributes:
        chains: Their numbers in the whole run.
        values: The best energy of each; NaN where it never had one.
        states: The state of each best energy, (chains, length).
        steps: How many steps each did.
        temperatures: At the end.
        status: Why each stopped, as kernel.py has it.
        sampled_steps: At which steps best values were kept.
        traced_chains: Of which chains, 64 at most.
        trace: Their best values, (samples, traced chains).
    """

    chains: NDArray[np.int64]
    values: NDArray[Any]
    states: NDArray[Any]
    steps: NDArray[np.int64]
    temperatures: NDArray[Any]
    status: NDArray[np.int8]
    sampled_steps: NDArray[np.int64]
    traced_chains: NDArray[np.int64]
    trace: NDArray[Any]

    @property
    def best(self) -> int | None:
        """The place of the best chain: the first one with the least value; None if no value is finite."""
        finite = np.where(np.isfinite(self.values), self.values, math.inf)
        place = int(np.argmin(finite))
        return place if math.isfinite(float(finite[place])) else None


def result_of(chains: Chains) -> Result:
    """What a device gave, by the numbers of the whole run."""
    numbers = np.arange(chains.first, chains.first + len(chains.values), dtype=np.int64)
    return Result(
        chains=numbers,
        values=chains.values,
        states=chains.states,
        steps=chains.steps,
        temperatures=chains.temperatures,
        status=chains.status,
        sampled_steps=chains.sampled_steps,
        traced_chains=numbers[:TRACED],
        trace=chains.trace[:, :TRACED],
    )


def merge_results(one: Result, other: Result) -> Result:
    """Both together, in the order of the chains' numbers.

    Raises:
        ValueError: They are of different models, or have a chain in common.
    """
    if one.states.shape[1] != other.states.shape[1] or one.values.dtype != other.values.dtype:
        raise ValueError(f"states of {one.states.shape[1]} and of {other.states.shape[1]} numbers do not match")
    if one.chains[0] > other.chains[0]:
        one, other = other, one
    if one.chains[-1] >= other.chains[0]:
        raise ValueError(f"chain {other.chains[0]} is in both")
    sampled = np.union1d(one.sampled_steps, other.sampled_steps)
    joined = {
        name: np.concatenate([getattr(one, name), getattr(other, name)])
        for name in ("chains", "values", "states", "steps", "temperatures", "status")
    }
    return Result(
        **joined,
        sampled_steps=sampled,
        traced_chains=np.concatenate([one.traced_chains, other.traced_chains])[:TRACED],
        trace=np.concatenate([_at(one, sampled), _at(other, sampled)], axis=1)[:, :TRACED],
    )


def _at(result: Result, sampled: NDArray[np.int64]) -> NDArray[Any]:
    """The best values at other steps: those of the last sample before each."""
    places = np.searchsorted(result.sampled_steps, sampled, side="right") - 1
    found: NDArray[Any] = result.trace[np.maximum(places, 0)]
    return found


def write_result(path: Path, result: Result) -> None:
    """Keep a result."""
    write_arrays(path, {name: getattr(result, name) for name in _WANTED})


def read_result(path: Path) -> Result:
    """A result that was kept.

    Raises:
        ValueError: It is none.
        OSError: It cannot be read.
    """
    result = Result(**read_arrays(path, _WANTED))
    count, traced = len(result.chains), len(result.traced_chains)
    columns = ("values", "states", "steps", "temperatures", "status")
    if not count or any(len(getattr(result, name)) != count for name in columns):
        raise ValueError("does not have one value for each chain")
    if result.trace.shape != (len(result.sampled_steps), traced) or not len(result.sampled_steps):
        raise ValueError("has a trace of another shape")
    return result
