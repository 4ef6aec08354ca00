"""A cluster's life, one verb after the other; each can be stopped anywhere, done again, and compared."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.provision.folder import abandoned_folders
from tests.e2e.conftest import output
from tests.e2e.killing import DUMPS, Blow, Dump, leave_alone, loose_links, state_images, strike
from tests.e2e.places import EVERY_GPU, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.killing import How, Stopped
    from tests.e2e.places import Place


QUARTERS = ("first", "second", "third", "last")
LIVES = 4  # in each quarter of the time, for each signal and engine: 384 kills, with two engines and four verbs
INTERRUPTED = 130
UNDONE = {"cluster up": "", "create-node": "cluster up"}  # verbs that undo, each with the verb before it in a life


@dataclass
class Count:
    """A kill that is being survived.

    Attributes:
        seconds: How long the next run took.
        told: How many commands of doctor it took besides.
    """

    seconds: float = 0.0
    told: int = 0


@contextmanager
def counted(ledger: Ledger, verb: str, blow: Blow, *, engine: str = "lxd") -> Iterator[Count]:
    """Enter a kill into the ledger, survived or not: the block is what makes it a survival."""
    count = Count()

    def add(*, survived: bool) -> None:
        what, seconds = {"step": blow.step, "how": blow.how}, round(count.seconds, 2)
        ledger.add("kill", engine=engine, verb=verb, **what, survived=survived, seconds=seconds, told=count.told)

    try:
        yield count
    except Exception:  # not where somebody interrupts the tests
        add(survived=False)
        raise
    add(survived=True)


def begin_life(gpuprov: Gpuprov, ledger: Ledger, place: Place, folder: Path, *, engine: str, role: str) -> Life:
    """A life of a cluster of two nodes, after an undisturbed one."""
    spec = folder / "spec.yaml"
    spec.write_text(place.spec(engine=engine, gpus=EVERY_GPU, nodes=f"role: {role}"))
    verbs = verbs_of(place, spec, engine)
    life = Life(gpuprov=gpuprov, ledger=ledger, place=place, engine=engine, role=role, verbs=verbs)
    life.live()
    return life


def life_of(*, engine: str, role: str) -> Any:
    """A fixture: the life of a module's cluster; nodes without Slurm are there much sooner."""

    @pytest.fixture(scope="module")
    def life(gpuprov: Gpuprov, ledger: Ledger, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Life:
        return begin_life(gpuprov, ledger, place, tmp_path_factory.mktemp("kills"), engine=engine, role=role)

    return life


def sweeping(engine: str) -> Any:
    """A fixture that every test of a module has: a round that fails does not spoil the next."""

    @pytest.fixture(autouse=True)
    def nothing_is_left(gpuprov: Gpuprov, place: Place) -> Iterator[None]:
        yield
        gpuprov("cluster", "down", place.cluster, "--yes", "--engine", engine)
        sweep(place)
        remove_loose_pairs(gpuprov)

    return nothing_is_left


def remove_loose_pairs(gpuprov: Gpuprov) -> int:
    """Type what doctor says about links that an engine died over; how many commands that were."""
    (found,) = (found for found in gpuprov.json("doctor")["findings"] if found["id"] == "loose-links")
    commands = [command.removeprefix("sudo ") for command in found["fix"].split(" && ") if command]
    for command in commands:
        output(*command.split())
    return len(commands)


def verbs_of(place: Place, spec: Path, engine: str) -> dict[str, tuple[str, ...]]:
    """The verbs of a life, in their order."""
    which = ("--engine", engine)
    more = (f"{place.mark}-more", "--cluster", place.cluster, "--gpu-mode", "simulated", "--gpus", "4", *which)
    return {
        "cluster up": ("cluster", "up", "-f", str(spec), "--no-verify"),
        "create-node": ("create-node", *more),
        "cluster up -n 1": ("cluster", "up", "--name", place.cluster, "-n", "1", "--no-verify", *which),
        "cluster down": ("cluster", "down", place.cluster, "--yes", *which),
    }


@dataclass(kw_only=True)
class Life:
    """The verbs of a life, with what an undisturbed one showed of each."""

    gpuprov: Gpuprov
    ledger: Ledger
    place: Place
    engine: str
    verbs: dict[str, tuple[str, ...]]
    role: str
    steps: dict[str, list[str]] = field(default_factory=dict)
    results: dict[str, Dump] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)

    def look(self) -> Dump:
        dump = DUMPS[self.engine](self.place.cluster, self.place.mark, self.gpuprov.folder / "data")
        if lost := self.remains() - self.others:
            dump.parts["remains"] = sorted(lost)
        return dump

    def remains(self) -> set[str]:
        """What is nobody's by its name: it must not become more."""
        folders = {str(folder) for folder in abandoned_folders()}
        return loose_links() | folders | (state_images() if self.engine == "docker" else set())

    def live(self) -> None:
        """An undisturbed life; the image is there before, for its steps are no steps of the rounds."""
        which = ("--role", self.role, "--engine", self.engine)
        self.gpuprov("image", "build", "--gpu-mode", "simulated", *which)
        self.others = self.remains()
        for verb, argv in self.verbs.items():
            undisturbed = leave_alone(self.gpuprov, argv)
            self.steps[verb], self.seconds[verb] = undisturbed.steps, undisturbed.seconds
            self.results[verb] = self.look()
        assert self.results["cluster down"].parts == {}

    def survive(self, verb: str, blow: Blow) -> None:
        """Stop a verb, do it again, and compare."""
        stopped = strike(self.gpuprov, self.verbs[verb], blow, engine=self.engine)
        if not stopped.reached:  # it was done before
            assert self.results[verb].differences(self.look()) == []
            return
        with counted(self.ledger, verb, blow, engine=self.engine) as count:
            if blow.how == "engine":
                self.gpuprov("host", "prepare", "--engine", self.engine)
                if self.engine == "docker":
                    self.start_what_docker_left()
            if stopped.exit_code == INTERRUPTED:
                self.expect_undone(verb, blow, stopped)
            began_s = time.monotonic()
            again = self.gpuprov(*self.verbs[verb])
            count.seconds = time.monotonic() - began_s
            if blow.how == "engine":  # whose command doctor knows
                count.told = remove_loose_pairs(self.gpuprov)
            differences = self.results[verb].differences(self.look())
            assert not differences, f"{blow} of {verb}: {differences}\n{stopped.stderr}{again.all}"
            once_more = self.gpuprov.json(*self.verbs[verb])
            assert once_more["unchanged"] is True, f"{blow} of {verb}: {once_more}"

    def expect_undone(self, verb: str, blow: Blow, stopped: Stopped) -> None:
        """It says that it was interrupted, and has undone what it made, or had made it all by then."""
        assert "interrupted" in stopped.stderr, f"{blow} of {verb}: {stopped.stderr}"
        if verb not in UNDONE:
            return
        before = self.results[UNDONE[verb]].parts if UNDONE[verb] else {}
        there = self.look().parts
        assert {*there} - {"keys"} in ({*before} - {"keys"}, {*self.results[verb].parts} - {"keys"}), (
            f"{blow} of {verb}: {sorted(there)} instead of {sorted(before)}\n{stopped.stderr}"
        )

    def start_what_docker_left(self) -> None:
        """A Docker that was killed ends its containers when it is started again, and starts none of them."""
        listed = self.gpuprov.json("list", "--engine", self.engine)["nodes"]
        stopped = [
            node["name"] for node in listed if (node["cluster"], node["status"]) == (self.place.cluster, "stopped")
        ]
        if stopped:
            self.gpuprov("start", *stopped)

    def half_way(self, verb: str) -> str:
        """The step in the middle of a verb, where the most is begun and not ended."""
        return self.steps[verb][len(self.steps[verb]) // 2]

    def die_half_way(self, hows: tuple[How, ...]) -> None:
        """The short form of a life in which each verb is stopped; `make test-long` has every step."""
        for turn, verb in enumerate(self.verbs):
            self.survive(verb, Blow(how=hows[turn % len(hows)], step=self.half_way(verb)))

    def die_at_any_time(self, how: How, quarter: int, lives: int) -> None:
        """Lives in which each verb is stopped within a quarter of its time, evenly spread over it."""
        for life in range(lives):
            share = (quarter + (life + 0.5) / lives) / len(QUARTERS)
            for verb in self.verbs:
                when = f"in the {QUARTERS[quarter]} quarter of its time"
                self.survive(verb, Blow(how=how, step=when, after_s=share * self.seconds[verb]))

    def die_in(self, number: int, hows: tuple[How, ...]) -> None:
        """A life in which each verb is stopped at its step of this number."""
        for turn, verb in enumerate(self.verbs):
            steps = self.steps[verb]
            self.survive(verb, Blow(how=hows[(number + turn) % len(hows)], step=steps[number % len(steps)]))
