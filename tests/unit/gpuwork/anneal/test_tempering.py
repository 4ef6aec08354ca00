"""Replica exchange finds the optimum of a rugged function in fewer steps than chains that cool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gpuwork.anneal.exchange import ladder
from tests.unit.gpuwork.anneal.conftest import LINE, anneal, changed

if TYPE_CHECKING:
    from gpuwork.anneal.chains import Chains

RASTRIGIN = (Path(__file__).parents[4] / "examples/anneal/rastrigin.py").read_text()
STEPS = 2000
IN_THE_VALLEY = 0.5  # of the optimum, whose value is 0; the next one's is 0.995


def steps_to_the_optimum(chains: Chains) -> int:
    """How many steps until the best of the chains is in the right valley; all of them if it never is."""
    found = np.flatnonzero(np.nanmin(chains.trace[1:], axis=1) <= IN_THE_VALLEY)
    return int(chains.sampled_steps[1 + found[0]]) if len(found) else STEPS


@pytest.mark.slow
def test_exchange_finds_the_optimum_of_a_rugged_function_in_fewer_steps() -> None:
    model = changed("state[i] + randoms[i] - 0.5", "state[i] + 1.6 * randoms[i] - 0.8", RASTRIGIN)
    cooled, tempered = [], []
    for seed in range(4):
        common: dict[str, Any] = {"thread_count": 8, "max_steps": STEPS, "initial_temp": 20, "random_seed": seed}
        cooled.append(steps_to_the_optimum(anneal(model, **common).chains))
        ladders: dict[str, Any] = {"min_temp": 0.5, "replicas": 8, "exchange_every": 5}
        tempered.append(steps_to_the_optimum(anneal(model, **common, **ladders).chains))
    assert max(tempered) < STEPS, tempered
    assert STEPS in cooled, "some chains that cool never leave their valley"
    assert 2 * sum(tempered) < sum(cooled), (tempered, cooled)


@pytest.mark.slow
def test_replicas_keep_the_temperatures_of_their_ladder() -> None:
    settings = {"thread_count": 12, "max_steps": 60, "initial_temp": 8.0, "min_temp": 1.0, "replicas": 4}
    found = anneal(**settings, exchange_every=7).chains  # type: ignore[arg-type]
    rungs = sorted(ladder(4, hottest=8, coldest=1).astype(np.float32).tolist())
    ladders = found.temperatures.reshape(3, 4)
    assert [sorted(one) for one in ladders.tolist()] == [rungs] * 3
    assert {tuple(one) for one in ladders.tolist()} != {tuple(rungs)}, "some were exchanged"
    assert set(found.steps.tolist()) == {60}, "none stops for being cold"


@pytest.mark.slow
def test_exchange_does_not_depend_on_launches_or_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"max_steps": 60, "initial_temp": 8.0, "min_temp": 1.0, "replicas": 4, "exchange_every": 7}
    whole = anneal(thread_count=12, **settings).chains  # type: ignore[arg-type]
    part = anneal(thread_count=12, first=4, count=8, **settings).chains  # type: ignore[arg-type]
    assert part.states.tobytes() == whole.states[4:].tobytes()
    monkeypatch.setattr("gpuwork.anneal.chains._FIRST_LAUNCH", 1)
    short = anneal(thread_count=12, **settings).chains  # type: ignore[arg-type]
    assert short.states.tobytes() == whole.states.tobytes()
    never = changed("return old_temp * 0.99", "return old_temp / 0", LINE)
    assert anneal(never, thread_count=4, **settings).chains.raised == {}, "cool is not called"  # type: ignore[arg-type]
