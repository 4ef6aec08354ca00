"""The kernels: one chain for each thread, for some steps, and the energies of states.

A launch does some steps of all chains, and what a chain needs for the next launch is in arrays of the device. So the
result does not depend on how many steps a launch does, and the best values can be shown while chains run. Threads
beyond the last chain do nothing, and none waits for another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpuwork.anneal.backend import SIMULATED, cuda, make_draws
from gpuwork.anneal.status import BAD_ENERGY, BAD_TEMPERATURE, COLD, RAISED, RUNNING, TARGET

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.shapes.anneal_settings import AnnealSettings
    from gpuwork.anneal.backend import DeviceArray, Kernel
    from gpuwork.anneal.compiled import Functions

_STATUS: Final = 6  # among the arguments of a launch


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """What a model becomes.

    Attributes:
        anneal: Does some steps of all chains.
        evaluate: The energies of states, shape (length, chains).
        raised: In the simulator, what a chain's function raised, by the chain's place.
    """

    anneal: Kernel
    evaluate: Kernel
    raised: dict[int, str]


def make_kernels(functions: Functions, settings: AnnealSettings) -> Kernels:
    """The kernels of a model; they are compiled when they are launched."""
    real = {"float32": np.float32, "float64": np.float64}[settings.precision]
    raised: dict[int, str] = {}
    steps_of_chain = _chain_source(functions, settings, real)
    evaluate, length = _nan_where_it_raises(functions.evaluate) if SIMULATED else functions.evaluate, functions.length

    def energies_of(states: DeviceArray, values: DeviceArray) -> None:
        chain = cuda.grid(1)
        if chain < values.shape[0]:
            state = cuda.local.array(length, real)
            for place in range(length):
                state[place] = states[place, chain]
            values[chain] = real(evaluate(state))

    anneal = _guarded(steps_of_chain, raised) if SIMULATED else steps_of_chain
    return Kernels(anneal=cuda.jit(anneal), evaluate=cuda.jit(energies_of), raised=raised)


def _chain_source(functions: Functions, settings: AnnealSettings, real: Any) -> Callable[..., None]:  # noqa: ANN401, C901, PLR0915
    """The steps of the chain of a thread.

    Its first launch has `first_step` 0 and begins it. Steps count from 1. Each draws `dimensions` numbers for
    `generate_next` and then a uniform one for `acceptance_func`, whether these use them or not.
    """
    uniform, gauss = make_draws(real)
    draw = gauss if settings.distribution == "normal" else uniform
    initialize, generate_next = functions.initialize, functions.generate_next
    evaluate, acceptance_func, cool = functions.evaluate, functions.acceptance_func, functions.cool
    length, dimensions, places = functions.length, settings.dimensions, max(1, settings.dimensions)
    cools = not settings.is_tempering
    lowest = real(-np.inf)  # at or below it is no energy, and NaN is not above it

    def anneal(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917  (arrays and words of a launch)
        streams: DeviceArray,
        states: DeviceArray,
        bests: DeviceArray,
        energies: DeviceArray,
        best_values: DeviceArray,
        temperatures: DeviceArray,
        status: DeviceArray,
        steps: DeviceArray,
        first_step: int,
        last_step: int,
        initial_temp: float,
        min_temp: float,
        target: float,
    ) -> None:
        chain = cuda.grid(1)
        if chain >= status.shape[0] or status[chain] != RUNNING:
            return
        state = cuda.local.array(length, real)
        new_state = cuda.local.array(length, real)
        randoms = cuda.local.array(places, real)
        for place in range(places):
            randoms[place] = real(0)
        if first_step == 0:
            for place in range(length):
                state[place] = real(0)
            for place in range(dimensions):
                randoms[place] = draw(streams, chain)
            initialize(state, randoms)
            energy = real(evaluate(state))
            best = energy
            best_values[chain] = best
            for place in range(length):
                bests[place, chain] = state[place]
        else:
            for place in range(length):
                state[place] = states[place, chain]
            energy = real(energies[chain])
            best = real(best_values[chain])
        for place in range(length):
            new_state[place] = state[place]
        temperature = real(temperatures[chain])
        why = RUNNING
        step = first_step
        if not energy > lowest:
            why = BAD_ENERGY
        elif best <= target:
            why = TARGET
        elif cools and temperature <= min_temp:
            why = COLD
        while why == RUNNING and step < last_step:
            step += 1
            if SIMULATED:
                steps[chain] = step  # for what a function raises
            for place in range(dimensions):
                randoms[place] = draw(streams, chain)
            rnd = uniform(streams, chain)
            generate_next(state, new_state, randoms, step)
            new_energy = real(evaluate(new_state))
            if not new_energy > lowest:
                why = BAD_ENERGY
            else:
                # Elements are copied, not names: the next move writes to new_state, which then equals state.
                if acceptance_func(energy, new_energy, temperature, rnd):
                    energy = new_energy
                    for place in range(length):
                        state[place] = new_state[place]
                    if energy < best:
                        best = energy
                        best_values[chain] = best
                        for place in range(length):
                            bests[place, chain] = state[place]
                else:
                    for place in range(length):
                        new_state[place] = state[place]
                if cools:
                    temperature = real(cool(initial_temp, temperature, step))
                if temperature != temperature:  # noqa: PLR0124  (NaN)
                    why = BAD_TEMPERATURE
                elif best <= target:
                    why = TARGET
                elif cools and temperature <= min_temp:
                    why = COLD
        for place in range(length):
            states[place, chain] = state[place]
        energies[chain] = energy
        temperatures[chain] = temperature
        status[chain] = why
        steps[chain] = step

    return anneal


def _guarded(function: Callable[..., None], raised: dict[int, str]) -> Callable[..., None]:
    """In the simulator: what a function of the model raises ends its own chain alone, as NaN does on a GPU."""

    def anneal(*arguments: Any) -> None:  # noqa: ANN401
        try:
            with np.errstate(all="ignore"):
                function(*arguments)
        except Exception as error:  # noqa: BLE001  (it is the user's code)
            chain = cuda.grid(1)
            raised[chain] = f"{type(error).__name__}: {error}"
            arguments[_STATUS][chain] = RAISED

    return anneal


def _nan_where_it_raises(evaluate: Callable[..., float]) -> Callable[..., float]:
    """In the simulator: the energy of a state that has none."""

    def energy(state: DeviceArray) -> float:
        try:
            with np.errstate(all="ignore"):
                return evaluate(state)
        except Exception:  # noqa: BLE001  (it is the user's code)
            return math.nan

    return energy
