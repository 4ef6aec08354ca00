"""Killed anywhere: the same command again succeeds, with the result of an undisturbed run, and `down` leaves nothing.

One round is a cluster's life: up, one more node, fewer nodes, down; each is stopped at a step and done again. CI stops
each half way, once, and kills the engine under `up`; the long tests stop each at every step, and at any time.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from gpuprov.provision.folder import abandoned_folders
from tests.e2e import killing
from tests.e2e.killing import SIGNALS, Blow, strike, watch_steps
from tests.e2e.lives import Life, counted, verbs_of
from tests.e2e.places import EVERY_GPU, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

ROUNDS = 28  # the longest verb has 24 steps, and more on a slow machine, on which Slurm tells more states


@pytest.fixture(scope="module")
def life(gpuprov: Gpuprov, ledger: Ledger, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Life:
    path: Path = tmp_path_factory.mktemp("kills") / "spec.yaml"
    path.write_text(place.spec(gpus=EVERY_GPU))
    life = Life(gpuprov=gpuprov, ledger=ledger, place=place, engine="lxd", verbs=verbs_of(place, path, "lxd"))
    life.live()
    return life


@pytest.fixture(autouse=True)
def nothing_is_left(life: Life) -> Iterator[None]:
    """A round that fails does not spoil the next."""
    yield
    life.gpuprov("cluster", "down", life.place.cluster)
    sweep(life.place)


def test_a_round_of_kills(life: Life) -> None:
    life.die_half_way(SIGNALS)


def test_no_step_is_left_out(life: Life) -> None:
    assert longest(life) <= ROUNDS, "the rounds below would not come to the last steps"


def longest(life: Life) -> int:
    return max(map(len, life.steps.values()))


@pytest.mark.long
@pytest.mark.parametrize("number", range(ROUNDS))
def test_every_step(life: Life, number: int) -> None:
    if number >= longest(life):
        pytest.skip(f"no verb has more than {longest(life)} steps")
    life.die_in(number, ("SIGKILL",))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_at_a_random_time(life: Life, seed: int) -> None:
    dice = random.Random(seed)
    for verb in life.verbs:
        life.survive(verb, Blow(how=dice.choice(SIGNALS), after_s=dice.uniform(0.1, life.seconds[verb])))


def test_the_engine_is_killed_under_up(life: Life) -> None:
    life.survive("cluster up", Blow(how="engine", step=life.half_way("cluster up")))
    assert killing.engines() == 1 or not killing.PID_FILE.exists()


@pytest.mark.long
@pytest.mark.parametrize("number", range(ROUNDS))
def test_the_engine_is_killed_at_every_step(life: Life, number: int) -> None:
    if number >= longest(life):
        pytest.skip(f"no verb has more than {longest(life)} steps")
    life.die_in(number, ("engine",))
    assert killing.engines() == 1 or not killing.PID_FILE.exists()


@pytest.mark.long
def test_host_prepare_is_killed(life: Life, gpuprov: Gpuprov) -> None:
    """It starts a dead engine, is stopped at each step on the way, and does it again."""
    killing.kill_engine()
    argv = ("host", "prepare")
    for number, step in enumerate(watch_steps(gpuprov, argv)):
        killing.kill_engine()
        survive_prepare(life, Blow(how=SIGNALS[number % len(SIGNALS)], step=step))


@pytest.mark.long
def test_the_engine_is_killed_while_host_prepare_starts_it(life: Life, gpuprov: Gpuprov) -> None:
    """At every step from its start on; whether that run notices or not, the next one starts the engine again."""
    killing.kill_engine()
    argv = ("host", "prepare")
    steps = watch_steps(gpuprov, argv)
    started = next(number for number, step in enumerate(steps) if step.endswith("Start LXD without systemd"))
    for step in steps[started + 1 :]:
        killing.kill_engine()
        survive_prepare(life, Blow(how="engine", step=step))


def survive_prepare(life: Life, blow: Blow) -> None:
    """Stop `host prepare`, do it again, and look whether one engine answers and nothing is left."""
    gpuprov, argv = life.gpuprov, ("host", "prepare")
    assert strike(gpuprov, argv, blow).reached
    with counted(life.ledger, "host prepare", blow) as count:
        began_s = time.monotonic()
        gpuprov(*argv)
        count.seconds = time.monotonic() - began_s
        assert gpuprov(*argv).stdout == "unchanged\n"
        gpuprov("list")
        assert killing.engines() == 1 or not killing.PID_FILE.exists()
        assert abandoned_folders() == []
