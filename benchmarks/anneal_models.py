"""Chains of a user's model on this machine's device, against the same chains in numpy on the CPU.

    python3 -m benchmarks.anneal_models --chains 100000 --steps 1000

Prints both rates in steps of a chain per second. Without a GPU, NUMBA_ENABLE_CUDASIM=1 shows that the chains are the
same, and its rate says nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuwork.anneal.streams import make_streams

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "examples/anneal/ackley.py"
INITIAL_TEMP = 10.0
SEED = -919


class Streams:
    """The random streams of all chains, as vectors."""

    def __init__(self, chains: int) -> None:
        made = make_streams(SEED, first=0, count=chains)
        self._s0, self._s1 = made["s0"].copy(), made["s1"].copy()

    def uniform(self) -> NDArray[np.float32]:
        """The next number of each chain."""
        word = self._s0 + self._s1
        s1 = self._s1 ^ self._s0
        self._s0 = _rotated(self._s0, 55) ^ s1 ^ (s1 << np.uint64(14))
        self._s1 = _rotated(s1, 36)
        numbers = ((word >> np.uint64(11)).astype(np.float64) * 2.0**-53).astype(np.float32)
        below_one: NDArray[np.float32] = np.minimum(numbers, np.nextafter(np.float32(1), np.float32(0)))
        return below_one


def _rotated(words: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    rotated: NDArray[np.uint64] = (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
    return rotated


def evaluate(states: NDArray[np.float32]) -> NDArray[np.float32]:
    """Ackley's function of (2, chains)."""
    wide = states.astype(np.float64)
    squares, waves = (wide**2).sum(axis=0), np.cos(2 * math.pi * wide).sum(axis=0)
    energies = -20 * np.exp(-0.2 * np.sqrt(squares / 2)) - np.exp(waves / 2) + 20 + math.e
    narrow: NDArray[np.float32] = energies.astype(np.float32)
    return narrow


def anneal_in_numpy(chains: int, steps: int) -> NDArray[np.float32]:
    """The best value of each chain of examples/anneal/ackley.py."""
    streams = Streams(chains)
    states = (60 * np.stack([streams.uniform(), streams.uniform()]).astype(np.float64) - 30).astype(np.float32)
    energies = evaluate(states)
    best: NDArray[np.float32] = energies.copy()
    temperature = np.float32(INITIAL_TEMP)
    for step in range(1, steps + 1):
        moves = np.stack([streams.uniform(), streams.uniform()]).astype(np.float64)
        rnd = streams.uniform()
        moved = np.clip(states.astype(np.float64) + 2 * moves - 1, -30, 30).astype(np.float32)
        new = evaluate(moved)
        with np.errstate(over="ignore"):
            accepted = (new < energies) | (rnd < np.exp((energies - new).astype(np.float64) / float(temperature)))
        states = np.where(accepted, moved, states)
        energies = np.where(accepted, new, energies)
        best = np.minimum(best, energies)
        temperature = np.float32(INITIAL_TEMP * 0.999**step)
    return best


def anneal_on_device(chains: int, steps: int, folder: Path) -> tuple[dict[str, Any], NDArray[np.float32]]:
    """What the program says of its part, and the best value of each chain."""
    conf = folder / "run.yaml"
    conf.write_text(f"max_steps: {steps}\ninitial_temp: {INITIAL_TEMP}\nrandom_seed: {SEED}\nthread_count: {chains}\n")
    program = [sys.executable, "-m", "gpuwork.anneal"]
    argv = [*program, "run", str(MODEL), "--conf", str(conf), "--out", str(folder / "out")]
    subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    shown = subprocess.run([*program, "show", str(folder / "out")], cwd=ROOT, check=True, capture_output=True)
    (run,) = json.loads(shown.stdout)["runs"]
    with np.load(folder / "out/ackley/all.npz") as found:
        values: NDArray[np.float32] = found["values"]
    return {"parts": run["parts"], "simulated": run["simulated"]}, values


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Chains on this machine's device, against the same in numpy.")
    parser.add_argument("--chains", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=1000)
    asked = parser.parse_args()
    began = time.perf_counter()
    in_numpy = anneal_in_numpy(asked.chains, asked.steps)
    numpy_rate = asked.chains * asked.steps / (time.perf_counter() - began)
    with tempfile.TemporaryDirectory() as folder:
        told, values = anneal_on_device(asked.chains, asked.steps, Path(folder))
    device_rate = sum(part["rate"] for part in told["parts"])
    mark = " SIMULATED: this rate says nothing of any GPU" if told["simulated"] else ""
    print(f"{asked.chains} chains of {MODEL.name}, {asked.steps} steps")
    print(f"numpy   {numpy_rate:.4g} steps/s, best {in_numpy.min():.6g}, median {np.median(in_numpy):.6g}")
    print(f"{told['parts'][0]['device']}   {device_rate:.4g} steps/s, best {values.min():.6g}, "
          f"median {np.median(values):.6g}{mark}")  # fmt: skip
    print(f"{device_rate / numpy_rate:.3g} times the rate of numpy on one core")


if __name__ == "__main__":
    main()
