"""Killed anywhere: the same command again succeeds, with the result of an undisturbed run, and `down` leaves nothing.

One round is a cluster's life: up, one more node, fewer nodes, down; each is stopped at a step and done again. CI stops
each half way, once, and kills the engine under `up`. The long tests stop each verb of plain nodes hundreds of times,
evenly spread over its time, and at some of its steps those of Slurm's nodes, and the daemon under plain ones.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from gpuprov.provision.folder import abandoned_folders
from tests.e2e import killing
from tests.e2e.killing import SIGNALS, Blow, strike, watch_steps
from tests.e2e.lives import LIVES, QUARTERS, Life, counted, life_of, sweeping

if TYPE_CHECKING:
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.killing import How

ROUNDS = 28  # the longest verb has 24 steps, and more on a slow machine, on which Slurm tells more states

life = life_of(engine="lxd", role="slurm")
plain = life_of(engine="lxd", role="plain")
nothing_is_left = sweeping("lxd")


def test_a_round_of_kills(plain: Life) -> None:
    plain.die_half_way(SIGNALS)


@pytest.mark.long  # tests/unit/lifecycle/test_kills_fake.py has every step of Slurm's nodes on a fake engine
def test_a_round_of_kills_of_slurm_s_nodes(life: Life) -> None:
    life.die_half_way(SIGNALS)


@pytest.mark.long
@pytest.mark.parametrize("quarter", range(len(QUARTERS)))
@pytest.mark.parametrize("how", SIGNALS)
def test_at_any_time(plain: Life, how: How, quarter: int) -> None:
    plain.die_at_any_time(how, quarter, LIVES)


@pytest.mark.long
def test_no_step_is_left_out(life: Life) -> None:
    assert longest(life) <= ROUNDS, "the rounds below would not come to the last steps"


def longest(life: Life) -> int:
    return max(map(len, life.steps.values()))


@pytest.mark.long
@pytest.mark.parametrize("number", range(0, ROUNDS, 4))
def test_more_rounds_of_kills(life: Life, number: int) -> None:
    if number >= longest(life):
        pytest.skip(f"no verb has more than {longest(life)} steps")
    life.die_in(number, SIGNALS)


@pytest.mark.long  # a minute; test_endings.py has one kill of the daemon
def test_the_engine_is_killed_under_up(life: Life) -> None:
    life.survive("cluster up", Blow(how="engine", step=life.half_way("cluster up")))
    assert killing.engines() == 1 or not killing.PID_FILE.exists()


@pytest.mark.long
@pytest.mark.parametrize("number", range(0, ROUNDS, 3))
def test_more_rounds_of_kills_of_the_engine(plain: Life, number: int) -> None:
    if number >= longest(plain):
        pytest.skip(f"no verb has more than {longest(plain)} steps")
    plain.die_in(number, ("engine",))
    assert killing.engines() == 1 or not killing.PID_FILE.exists()


@pytest.mark.long
def test_host_prepare_is_killed(life: Life, gpuprov: Gpuprov) -> None:
    """It starts a dead engine, is stopped at every third step on the way, and does it again."""
    killing.kill_engine()
    argv = ("host", "prepare")
    for number, step in enumerate(watch_steps(gpuprov, argv)[::3]):
        killing.kill_engine()
        survive_prepare(life, Blow(how=SIGNALS[number % len(SIGNALS)], step=step))


@pytest.mark.long
def test_the_engine_is_killed_while_host_prepare_starts_it(life: Life, gpuprov: Gpuprov) -> None:
    """At every third step from its start on; whether that run notices or not, the next one starts the engine again."""
    killing.kill_engine()
    argv = ("host", "prepare")
    steps = watch_steps(gpuprov, argv)
    started = next(number for number, step in enumerate(steps) if step.endswith("Start the engine without systemd"))
    for step in steps[started + 1 :: 3]:
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
