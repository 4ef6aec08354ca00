"""Killed anywhere: the same command again succeeds, with the result of an undisturbed run, and `down` leaves nothing.

One round is a cluster's life: up, one more node, fewer nodes, down; each is stopped at a step and done again.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.e2e import killing
from tests.e2e.conftest import lxd
from tests.e2e.killing import SIGNALS, Blow, Dump, dump_cluster, strike, watch_steps
from tests.e2e.places import sweep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.killing import How
    from tests.e2e.places import Place

CI_ROUNDS = 3


@dataclass(kw_only=True)
class Life:
    """The verbs of a round in their order, with what an undisturbed round showed of each."""

    gpuprov: Gpuprov
    ledger: Ledger
    place: Place
    verbs: dict[str, tuple[str, ...]]
    steps: dict[str, list[str]] = field(default_factory=dict)
    results: dict[str, Dump] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def look(self) -> Dump:
        return dump_cluster(self.place.cluster, self.place.mark, self.gpuprov.folder / "data")

    def live(self) -> None:
        """An undisturbed round."""
        for verb, argv in self.verbs.items():
            began_s = time.monotonic()
            self.steps[verb] = watch_steps(self.gpuprov, argv)
            self.seconds[verb] = time.monotonic() - began_s
            self.results[verb] = self.look()
        assert self.results["cluster down"].parts == {}

    def survive(self, verb: str, blow: Blow) -> None:
        """Stop a verb, do it again, and compare."""
        before = self.look()
        stopped = strike(self.gpuprov, self.verbs[verb], blow)
        if blow.how == "engine":
            self.gpuprov("host", "prepare")
        undone = self.look()
        if stopped.exit_code == 130 and verb == "cluster up":
            left = {key for key in undone.parts if key != "keys"}
            assert not left, f"{blow} of {verb}: left behind {left}"
        began_s = time.monotonic()
        again = self.gpuprov(*self.verbs[verb])
        repair_s = time.monotonic() - began_s
        differences = self.results[verb].differences(self.look())
        assert not differences, f"{blow} of {verb}: {differences}\nbefore: {before}\n{stopped.stderr}{again.all}"
        once_more = self.gpuprov.json(*self.verbs[verb])
        assert once_more["unchanged"] is True, f"{blow} of {verb}: {once_more}"
        if stopped.reached:
            self.ledger.add(
                "kill",
                verb=verb,
                step=blow.step or "random time",
                how=blow.how,
                ended=stopped.exit_code,
                seconds=repair_s,
            )

    def die_in(self, number: int, hows: tuple[How, ...]) -> None:
        """A round in which each verb is stopped at its step of this number."""
        for turn, verb in enumerate(self.verbs):
            steps = self.steps[verb]
            self.survive(verb, Blow(how=hows[(number + turn) % len(hows)], step=steps[number % len(steps)]))


@pytest.fixture(scope="module")
def life(gpuprov: Gpuprov, ledger: Ledger, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Life:
    path: Path = tmp_path_factory.mktemp("kills") / "spec.yaml"
    path.write_text(place.spec())
    more = (f"{place.mark}9", "--cluster", place.cluster, "--gpu-mode", "simulated")
    life = Life(
        gpuprov=gpuprov,
        ledger=ledger,
        place=place,
        verbs={
            "cluster up": ("cluster", "up", "-f", str(path), "--no-verify"),
            "create-node": ("create-node", *more),
            "cluster up -n 1": ("cluster", "up", "--name", place.cluster, "-n", "1", "--no-verify"),
            "cluster down": ("cluster", "down", place.cluster),
        },
    )
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


@pytest.mark.parametrize("number", [pytest.param(4), *(pytest.param(n, marks=pytest.mark.long) for n in (1, 3, 7, 9))])
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
        began_s = time.monotonic()
        gpuprov(*argv)
        seconds = time.monotonic() - began_s
        assert gpuprov(*argv).stdout == "unchanged\n"
        gpuprov("list")
        assert killing.engines() == 1 or not killing.PID_FILE.exists()
        if stopped.reached:
            life.ledger.add(
                "kill", verb="host prepare", step=step, how=blow.how, ended=stopped.exit_code, seconds=seconds
            )


@pytest.mark.long
def test_an_image_build_is_killed_at_every_phase_in_turn(life: Life, gpuprov: Gpuprov) -> None:
    """Each build goes on where kills have left the last one; at the end there is one image, and no builder."""
    argv = ("image", "build", "--role", "plain", "--package", "tree", "--gpu-mode", "simulated")
    before = [image["name"] for image in gpuprov.json("image", "list")["images"]]
    for number, phase in enumerate(("base", "builder", "wheels", "roles", "publish")):
        for ending in (" ...", " done"):
            blow = Blow(how=SIGNALS[number % len(SIGNALS)], step=f"{phase}{ending}")
            stopped = strike(gpuprov, argv, blow)
            assert [image["name"] for image in gpuprov.json("image", "list")["images"]] == before or ending == " done"
            if stopped.reached:
                life.ledger.add(
                    "kill", verb="image build", step=blow.step, how=blow.how, ended=stopped.exit_code, seconds=0
                )
    began_s = time.monotonic()
    gpuprov(*argv)
    assert gpuprov(*argv).stdout == "unchanged\n"
    (made,) = {image["name"] for image in gpuprov.json("image", "list")["images"]} - set(before)
    instances = [item["name"] for item in lxd("instances?recursion=1")]
    assert "gpuprov-build" not in instances
    life.ledger.add(
        "kill", verb="image build", step="the next run", how="none", ended=0, seconds=time.monotonic() - began_s
    )
    gpuprov("image", "rm", made)
