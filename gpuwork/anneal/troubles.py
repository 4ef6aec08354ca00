"""What went wrong with chains, in words, each with the number of its chain. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpuprov.shapes.anneal import Trouble
from gpuwork.anneal.status import BAD_ENERGY, BAD_TEMPERATURE, RAISED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.shapes.anneal_settings import AnnealSettings
    from gpuwork.anneal.chains import Chains

_WORDS: Final = 300
_FEWEST_STEPS: Final = 2  # a chain that made fewer had no chance to cool


def find_troubles(chains: Chains, settings: AnnealSettings) -> list[Trouble]:
    """All of them, in the order of the chains."""
    found = [*_broken(chains), *_wrong(chains), *_never_cooled(chains, settings)]
    return sorted(found, key=lambda trouble: trouble.chain)


def _broken(chains: Chains) -> Iterator[Trouble]:
    for place in np.flatnonzero(
        np.isin(chains.status, (BAD_ENERGY, BAD_TEMPERATURE, RAISED)) | ~np.isfinite(chains.values)
    ):
        chain, step, status = chains.first + int(place), int(chains.steps[place]), int(chains.status[place])
        value = chains.values[place]
        if status == RAISED:
            message = f"a function raised {chains.raised.get(chain, 'an error')}"
        elif status == BAD_TEMPERATURE:
            message = "cool returned NaN: what it divides by may be 0"
        elif status == BAD_ENERGY:
            message = "evaluate returned NaN or minus infinity: what it divides by may be 0"
        else:
            message = f"its best value is {value}: evaluate never returned a finite number"
        kept = "its best value before that is kept" if np.isfinite(value) else "it has no value"
        yield Trouble(chain=chain, step=step, kind="error", message=f"{message[:_WORDS]}; {kept}")


def _wrong(chains: Chains) -> Iterator[Trouble]:
    for chain in chains.wrong:
        step = int(chains.steps[chain - chains.first])
        message = (
            "evaluate gives another value for its best state than during the run: it must depend only on the state"
        )
        yield Trouble(chain=chain, step=step, kind="error", message=message)


def _never_cooled(chains: Chains, settings: AnnealSettings) -> Iterator[Trouble]:
    if settings.is_tempering:
        return
    initial = chains.temperatures.dtype.type(settings.initial_temp)
    for place in np.flatnonzero((chains.temperatures >= initial) & (chains.steps >= _FEWEST_STEPS)):
        message = f"it never cooled: its temperature is {chains.temperatures[place]:g} and was {initial:g}; check cool"
        yield Trouble(chain=chains.first + int(place), step=int(chains.steps[place]), kind="warning", message=message)
