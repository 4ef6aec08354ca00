"""Killed anywhere: the same command again succeeds, with the result of an undisturbed run, and `down` leaves nothing.

One round is a cluster's life: up, one more node, fewer nodes, down; each is stopped at a step and done again.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e import killing
from tests.e2e.conftest import lxd
from tests.e2e.killing import SIGNALS, Blow, strike, watch_steps
from tests.e2e.lives import Life, counted, verbs_of
from tests.e2e.places import EVERY_GPU, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.killing import How
    from tests.e2e.places import Place

CI_ROUNDS = 2


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


@pytest.mark.parametrize("number", range(CI_ROUNDS))
def test_a_round_of_kills(life: Life, number: int) -> None:
    """Steps spread over each verb, so that CI sees its beginning, middle and end."""
    life.die_in(1 + number * max(map(len, life.steps.values())) // CI_ROUNDS, SIGNALS)


@pytest.mark.long
@pytest.mark.parametrize("number", range(24))
def test_every_step(life: Life, number: int) -> None:
    longest = max(map(len, life.steps.values()))
    if number >= longest:
        pytest.skip(f"no verb has more than {longest} steps")
    life.die_in(number, ("SIGKILL",))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_at_a_random_time(life: Life, seed: int) -> None:
    dice = random.Random(seed)
    for verb in life.verbs:
        life.survive(verb, Blow(how=dice.choice(SIGNALS), after_s=dice.uniform(0.1, life.seconds[verb])))


@pytest.mark.parametrize("number", [pytest.param(n, marks=[] if n == 4 else [pytest.mark.long]) for n in range(23)])
def test_the_engine_is_killed(life: Life, number: int) -> None:
    life.die_in(number, ("engine",))
    assert killing.engines() == 1 or not killing.PID_FILE.exists()


def test_host_prepare_is_killed(life: Life, gpuprov: Gpuprov, request: pytest.FixtureRequest) -> None:
    """It starts a dead engine, is stopped on the way, and does it again."""
    killing.kill_engine()
    argv = ("host", "prepare")
    steps = watch_steps(gpuprov, argv)
    chosen = steps if request.config.getoption("--long") else [steps[len(steps) // 2]]
    for number, step in enumerate(chosen):
        killing.kill_engine()
        blow = Blow(how=SIGNALS[number % len(SIGNALS)], step=step)
        stopped = strike(gpuprov, argv, blow)
        assert stopped.reached
        with counted(life.ledger, "host prepare", blow) as count:
            began_s = time.monotonic()
            gpuprov(*argv)
            count.seconds = time.monotonic() - began_s
            assert gpuprov(*argv).stdout == "unchanged\n"
            gpuprov("list")
            assert killing.engines() == 1 or not killing.PID_FILE.exists()


@pytest.mark.long
def test_an_image_build_is_killed_at_every_phase_in_turn(life: Life, gpuprov: Gpuprov) -> None:
    """Each build goes on where kills have left the last one; at the end there is one image, and no builder."""
    argv = ("image", "build", "--role", "plain", "--package", "tree", "--gpu-mode", "simulated")
    hows: tuple[How, ...] = (*SIGNALS, "engine")
    before = [image["name"] for image in gpuprov.json("image", "list")["images"]]
    phases = [
        f"{phase}{ending}"
        for phase in ("base", "builder", "wheels", "roles", "publish")
        for ending in (" ...", " done")
    ]
    for number, phase in enumerate(phases):
        blow = Blow(how=hows[number % len(hows)], step=phase)
        if not strike(gpuprov, argv, blow).reached:  # what is cached has no such phase
            continue
        with counted(life.ledger, "image build", blow):
            if blow.how == "engine":
                gpuprov("host", "prepare")
            images = [image["name"] for image in gpuprov.json("image", "list")["images"]]
            assert images == before or phase == "publish done"
    began_s = time.monotonic()
    gpuprov(*argv)
    seconds = time.monotonic() - began_s
    assert gpuprov(*argv).stdout == "unchanged\n"
    (made,) = {image["name"] for image in gpuprov.json("image", "list")["images"]} - set(before)
    assert "gpuprov-build" not in [item["name"] for item in lxd("instances?recursion=1")]
    life.ledger.add("repair", what="an image build that was killed ten times", plan="", seconds=round(seconds, 1))
    gpuprov("image", "rm", made)
    assert gpuprov("image", "rm", made).stdout == "unchanged\n"
