"""Chains on this machine's device, from their first step to their last."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpuwork.anneal.backend import best_block, local_limit, to_device, to_host, to_streams
from gpuwork.anneal.exchange import exchange, ladder
from gpuwork.anneal.kernel import make_kernels
from gpuwork.anneal.status import BROKEN, MAX_STEPS, RUNNING, STOPPED, TARGET
from gpuwork.anneal.streams import make_streams
from gpuwork.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from gpuprov.shapes.anneal_settings import AnnealSettings
    from gpuwork.anneal.compiled import Functions

SAMPLES: Final = 100
TRACED: Final = 64
_FIRST_LAUNCH: Final = 32  # steps; later ones take about as long as below
_LAUNCH_S: Final = 0.25
_TARGET_STEPS: Final = 256  # a launch has as many where chains stop each other: always at the same steps


@dataclass(frozen=True, kw_only=True)
class Chains:
    """What became of some chains.

    Attributes:
        first: The number of the first one in the whole run.
        values: The best energies, one for each chain; NaN where it never had one.
        states: Their states, (chains, length).
        steps: How many steps each did.
        temperatures: At the end.
        status: Why each stopped, as kernel.py has it.
        sampled_steps: At which steps best values were kept, at most 101.
        trace: The best values at these steps, (samples, chains), of the first 64 chains.
        raised: What functions raised, by the number of the chain.
        wrong: Numbers of chains whose best value is not the energy of their best state.
        rate: Steps of a chain in a second, of all chains together.
        block: Threads of a block.
    """

    first: int
    values: NDArray[Any]
    states: NDArray[Any]
    steps: NDArray[np.int64]
    temperatures: NDArray[Any]
    status: NDArray[np.int8]
    sampled_steps: NDArray[np.int64]
    trace: NDArray[Any]
    raised: dict[int, str] = field(default_factory=dict)
    wrong: tuple[int, ...] = ()
    rate: float = 0.0
    block: int = 0


class ChainRun:
    """Some chains of a run on the device of this process.

    Args:
        functions: Of the model.
        settings: How it is annealed.

    Raises:
        Refused: A state is too large for a thread.
    """

    def __init__(self, functions: Functions, settings: AnnealSettings) -> None:
        self._settings = settings
        self._functions = functions
        self._real = {"float32": np.float32, "float64": np.float64}[settings.precision]
        _refuse_large(functions.length, settings, np.dtype(self._real).itemsize)
        self._kernels = make_kernels(functions, settings)
        self._block = settings.threads_per_block or 1

    def compile(self) -> None:
        """Compile the kernels, by a launch of both for one chain that does no step."""
        arrays = self._arrays(0, 1)
        arrays["status"] = to_device(np.full(1, MAX_STEPS, np.int8))  # it has ended, so nothing is done
        self._launch(arrays, (1, 1), 0, 0)
        self._kernels.evaluate[1, 1](arrays["bests"], arrays["best_values"])
        to_host(arrays["best_values"])
        self._kernels.raised.clear()
        self._block = self._settings.threads_per_block or best_block(self._kernels.anneal)

    def measure(self, *, chains: int, limit_s: float) -> float:
        """The rate of this device, in steps of a chain a second, by chains whose result nobody sees."""
        arrays = self._arrays(0, chains)
        steps, done, began = 8, 0, time.monotonic()
        while (spent := time.monotonic() - began) < limit_s and done < self._settings.max_steps:
            last = min(done + steps, self._settings.max_steps)
            self._launch(arrays, self._grid(chains), done, last)
            status = to_host(arrays["status"])
            steps, done = steps * 2, last
            if not (status == RUNNING).any() or time.monotonic() - began > spent + limit_s / 3:
                break
        self._kernels.raised.clear()
        made = int(to_host(arrays["steps"]).sum())  # chains that ended early made fewer than were asked for
        return max(1, made) / max(time.monotonic() - began, 1e-9)

    def run(self, *, first: int, chains: int, tell: Callable[[int, float], None]) -> Chains:
        """Run chains to their end.

        Args:
            first: The number of the first one in the whole run.
            chains: How many.
            tell: Is told at which step they are, and the best value so far.
        """
        arrays = self._arrays(first, chains)
        samples, trace = [0], []
        steps, began, rounds = _FIRST_LAUNCH, time.monotonic(), 0
        done = 0
        trace.append(self._best_values(arrays)[:TRACED])  # NaN: no chain has begun
        while done < self._settings.max_steps:
            last = self._next_stop(done, steps)
            at = time.monotonic()
            self._launch(arrays, self._grid(chains), done, last)
            status = to_host(arrays["status"])
            spent = time.monotonic() - at
            done, before = last, done
            steps = max(1, min(2 * steps, int((last - before) * _LAUNCH_S / max(spent, 1e-4))))
            values = self._best_values(arrays)
            if done in self._samples():
                samples.append(done)
                trace.append(values[:TRACED])
            tell(done, _least(values))
            if not (status == RUNNING).any() or (self._settings.target is not None and (status == TARGET).any()):
                break
            if self._settings.is_tempering and done % (self._settings.exchange_every or 1) == 0:
                self._exchange(arrays, first, rounds)
                rounds += 1
        if samples[-1] != done:
            samples.append(done)
            trace.append(self._best_values(arrays)[:TRACED])
        return self._collect(arrays, first, (samples, trace), time.monotonic() - began)

    def evaluate(self, states: NDArray[Any]) -> NDArray[Any]:
        """The energies of states, (chains, length)."""
        values = to_device(np.zeros(len(states), self._real))
        chosen = np.ascontiguousarray(states.T.astype(self._real))
        self._kernels.evaluate[self._grid(len(states))](to_device(chosen), values)
        return to_host(values)

    def _arrays(self, first: int, chains: int) -> dict[str, Any]:
        real, length, settings = self._real, self._functions.length, self._settings
        temperatures = np.full(chains, settings.initial_temp, real)
        if settings.replicas is not None:
            rungs = ladder(settings.replicas, hottest=settings.initial_temp, coldest=settings.min_temp)
            temperatures = np.tile(rungs.astype(real), -(-chains // settings.replicas))[:chains]
        return {
            "streams": to_streams(make_streams(settings.random_seed, first=first, count=chains)),
            "states": to_device(np.zeros((length, chains), real)),
            "bests": to_device(np.zeros((length, chains), real)),
            "energies": to_device(np.zeros(chains, real)),
            "best_values": to_device(np.full(chains, np.nan, real)),
            "temperatures": to_device(temperatures),
            "status": to_device(np.zeros(chains, np.int8)),
            "steps": to_device(np.zeros(chains, np.int64)),
        }

    def _launch(self, arrays: dict[str, Any], grid: tuple[int, int], first: int, last: int) -> None:
        settings, real = self._settings, self._real
        target = -np.inf if settings.target is None else settings.target
        self._kernels.anneal[grid](
            *arrays.values(), np.int64(first), np.int64(last),
            real(settings.initial_temp), real(settings.min_temp), real(target),
        )  # fmt: skip

    def _grid(self, chains: int) -> tuple[int, int]:
        return max(math.ceil(chains / self._block), self._settings.blocks_per_grid or 0), self._block

    def _samples(self) -> range:
        """The steps at which best values are kept."""
        apart = math.ceil(self._settings.max_steps / SAMPLES)
        return range(apart, self._settings.max_steps + 1, apart)

    def _next_stop(self, done: int, steps: int) -> int:
        """Where the next launch ends."""
        settings = self._settings
        apart = self._samples().step
        stops = [settings.max_steps, (done // apart + 1) * apart]
        if settings.exchange_every is not None:
            stops.append((done // settings.exchange_every + 1) * settings.exchange_every)
        stops.append(done + (steps if settings.target is None else _TARGET_STEPS))
        return min(stops)

    def _best_values(self, arrays: dict[str, Any]) -> NDArray[Any]:
        values: NDArray[Any] = to_host(arrays["best_values"]).copy()
        return values

    def _exchange(self, arrays: dict[str, Any], first: int, rounds: int) -> None:
        assert self._settings.replicas is not None  # noqa: S101  (else this is not called)
        swapped = exchange(
            to_host(arrays["energies"]), to_host(arrays["temperatures"]), replicas=self._settings.replicas,
            seed=self._settings.random_seed, round_=rounds, first=first,
        )  # fmt: skip
        arrays["temperatures"].copy_to_device(np.ascontiguousarray(swapped))

    def _collect(
        self, arrays: dict[str, Any], first: int, sampled: tuple[list[int], list[NDArray[Any]]], spent_s: float
    ) -> Chains:
        status, steps = to_host(arrays["status"]).copy(), to_host(arrays["steps"])
        status[status == RUNNING] = STOPPED if (status == TARGET).any() else MAX_STEPS
        noted = self._best_values(arrays)
        states = np.ascontiguousarray(to_host(arrays["bests"]).T)
        values = np.where(np.isnan(noted), noted, self.evaluate(states)).astype(self._real)
        return Chains(
            first=first,
            values=values,
            states=states,
            steps=steps,
            temperatures=to_host(arrays["temperatures"]),
            status=status,
            sampled_steps=np.array(sampled[0], np.int64),
            trace=np.array(sampled[1], self._real),
            raised={first + chain: words for chain, words in self._kernels.raised.items()},
            wrong=tuple(first + int(chain) for chain in _differing(noted, values, status)),
            rate=float(steps.sum() / max(spent_s, 1e-9)),
            block=self._block,
        )


def _differing(noted: NDArray[Any], values: NDArray[Any], status: NDArray[np.int8]) -> NDArray[np.int64]:
    """Chains whose noted value is not that of their state. Two kernels may round differently in the last digits."""
    allowed = 64 * np.finfo(noted.dtype).eps * np.maximum(1, np.abs(noted))
    with np.errstate(invalid="ignore"):
        wrong = np.isfinite(noted) & ~(np.abs(noted - values) <= allowed)
    return np.flatnonzero(wrong & ~np.isin(status, BROKEN))


def _least(values: NDArray[Any]) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.min()) if finite.size else math.nan


def _refuse_large(length: int, settings: AnnealSettings, item_bytes: int) -> None:
    needed = (2 * length + settings.dimensions) * item_bytes
    if needed > local_limit():
        raise Refused(
            "a state is too large for a thread",
            evidence=f"a state of {length:,} {settings.precision}, twice, and {settings.dimensions:,} random numbers "
            f"have {needed:,} bytes, and a thread has {local_limit():,}",
            fix="shorten the state, or use float32" if item_bytes > 4 else "shorten the state",  # noqa: PLR2004
        )
