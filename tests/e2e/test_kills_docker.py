"""Killed anywhere, on Docker: the same as on LXD, at fewer steps."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.e2e.killing import SIGNALS, Blow
from tests.e2e.lives import Life, verbs_of
from tests.e2e.places import EVERY_GPU, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place


@pytest.fixture(scope="module")
def life(gpuprov: Gpuprov, ledger: Ledger, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Life:
    path: Path = tmp_path_factory.mktemp("kills") / "spec.yaml"
    path.write_text(place.spec(engine="docker", gpus=EVERY_GPU))
    life = Life(gpuprov=gpuprov, ledger=ledger, place=place, engine="docker", verbs=verbs_of(place, path, "docker"))
    life.live()
    return life


@pytest.fixture(autouse=True)
def nothing_is_left(life: Life) -> Iterator[None]:
    """A round that fails does not spoil the next."""
    yield
    life.gpuprov("cluster", "down", life.place.cluster, "--engine", "docker")
    sweep(life.place)


def test_a_round_of_kills(life: Life) -> None:
    life.die_half_way(SIGNALS)


@pytest.mark.long
@pytest.mark.parametrize("number", range(0, 21, 3))
def test_more_rounds_of_kills(life: Life, number: int) -> None:
    life.die_in(number, SIGNALS)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_at_a_random_time(life: Life, seed: int) -> None:
    dice = random.Random(seed)
    for verb in life.verbs:
        life.survive(verb, Blow(how=dice.choice(SIGNALS), after_s=dice.uniform(0.1, life.seconds[verb])))


@pytest.mark.long
@pytest.mark.parametrize("number", [2, 5, 8])
def test_the_engine_is_killed(life: Life, number: int) -> None:
    life.die_in(number, ("engine",))
