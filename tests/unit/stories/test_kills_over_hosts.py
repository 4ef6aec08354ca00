"""Stories over hosts, killed at every request and every step of an engine: the next run gives what one alone does.

`make test` takes some steps by lot, `make test-long` every step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.fleet.find_hosted import find_spanning
from gpuprov.fleet.hosts_down import down_over_hosts
from gpuprov.lifecycle.leaving import SPARE_JOBS
from gpuprov.roles.slurm import daemons as slurm
from tests.fakes.faults import Faults, Killed
from tests.fakes.hosts_in_worlds import HostsInWorlds, keep_keys_below
from tests.unit.lifecycle.test_kills_fake import look
from tests.unit.stories.test_hosts_up import NAMES, Controller

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.ask import MemberRequest
    from gpuprov.link.several import HostAnswer
    from tests.conftest import Recording

SAMPLES = 8
READINGS = ("facts", "find_node", "list_images", "list_networks", "list_nodes", "pull")


class Changes(Faults):
    """Only steps that change something: some that read run in threads, whose end their callers wait for."""

    def reach(self, step: str, subject: str = "") -> None:
        if step not in READINGS:
            super().reach(step, subject)


class HostsWithFaults(HostsInWorlds):
    """Whose engines, and the way to them, pass one list of steps."""

    def __init__(self, folder: Path, recording: Recording) -> None:
        super().__init__(folder, recording, NAMES)
        self.faults = Changes()
        for world in self.worlds.values():
            world.engine.faults = self.faults

    def _serve(self, machine: RemoteMachine, request: MemberRequest) -> HostAnswer:
        self.faults.reach(f"ask:{request.verb}", machine.name)
        answer = super()._serve(machine, request)
        self.faults.reach(f"answer:{request.verb}", machine.name)
        return answer

    def empty(self) -> None:
        """As they were before the first story."""
        self.faults.clear()
        for world in self.worlds.values():
            world.empty()
            for memory in (world.slurm.read, world.slurm.drains, world.slurm.down):
                memory.clear()

    def look(self) -> dict[str, Any]:
        """All there is on all of them."""
        return {name: look(world) for name, world in self.worlds.items()}


class Lab(Controller):
    """A controller whose stories say whether anything changed."""

    hosts: HostsWithFaults

    def up_to(self, nodes: int) -> bool:
        result = self.up(nodes)
        assert result.error is None
        return not result.outcome.unchanged

    def down(self) -> bool:
        seen = find_spanning("lab", self.hosts.machines, self.hosts)
        if seen is None:
            return False
        down_over_hosts(seen, self.hosts, SPARE_JOBS)
        return True


@dataclass(frozen=True, kw_only=True)
class Story:
    """How many nodes there are before, and the verb, which says whether it changed anything."""

    before: int
    verb: Callable[[Lab], bool]


STORIES = {
    "cluster up": Story(before=0, verb=lambda lab: lab.up_to(4)),
    "cluster up, growing": Story(before=2, verb=lambda lab: lab.up_to(4)),
    "cluster up, shrinking": Story(before=4, verb=lambda lab: lab.up_to(2)),
    "cluster down": Story(before=4, verb=lambda lab: lab.down()),
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "_READY_BUDGET_S", 0.5)


@pytest.fixture
def lab(tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> Lab:
    keep_keys_below(tmp_path / "data", monkeypatch)
    return Lab(HostsWithFaults(tmp_path, recording), recording)


@pytest.fixture(params=STORIES)
def told(request: pytest.FixtureRequest, lab: Lab) -> tuple[str, dict[str, Any], int]:
    """A story, what it leaves where nothing disturbs it, and how many steps it has."""
    story = STORIES[request.param]
    begin(lab, story)
    story.verb(lab)
    steps, wanted = len(lab.hosts.faults.passed), lab.hosts.look()
    assert not story.verb(lab)
    return request.param, wanted, steps


def begin(lab: Lab, story: Story) -> None:
    lab.hosts.empty()
    if story.before:
        lab.up_to(story.before)
    lab.hosts.faults.clear()


def kill(lab: Lab, story: Story, step: int) -> tuple[str, str] | None:
    """Kill the story at this step, counted from 1; None if it was done before."""
    lab.hosts.faults.raise_at(Killed(), nth=step, lasting=True)
    try:
        story.verb(lab)
    except Killed:
        for world in lab.hosts.worlds.values():
            world.slurm.forget_runs()
        return lab.hosts.faults.passed[step - 1]
    finally:
        lab.hosts.faults.clear()
    return None


def check(lab: Lab, story: Story, wanted: dict[str, Any], where: object) -> None:
    story.verb(lab)
    assert lab.hosts.look() == wanted, where
    assert not story.verb(lab), where


@pytest.mark.slow
def test_killed_at_some_steps(lab: Lab, told: tuple[str, dict[str, Any], int]) -> None:
    name, wanted, steps = told
    dice = random.Random(name)
    for _ in range(SAMPLES):
        begin(lab, STORIES[name])
        where = kill(lab, STORIES[name], dice.randint(1, steps))
        assert where is not None
        check(lab, STORIES[name], wanted, where)


@pytest.mark.long
def test_killed_at_every_step(lab: Lab, told: tuple[str, dict[str, Any], int]) -> None:
    name, wanted, _ = told
    tried = 0
    for step in count(1):
        begin(lab, STORIES[name])
        where = kill(lab, STORIES[name], step)
        if where is None:
            break
        check(lab, STORIES[name], wanted, where)
        tried += 1
    assert tried >= 10
