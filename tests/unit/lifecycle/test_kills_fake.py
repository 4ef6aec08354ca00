"""Every verb killed at every step, and at every pair of steps: the next run gives what an undisturbed one does.

`make test` takes every step and some pairs by lot, `make test-long` every pair.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import TimedOut
from gpuprov.lifecycle import remove_nodes, start_stop
from gpuprov.lifecycle.create_node import CloneOrder, clone_node
from gpuprov.lifecycle.leaving import JobsPolicy
from gpuprov.roles.slurm import daemons as slurm
from gpuprov.shapes.node import Exposure
from tests.fakes.faults import Killed
from tests.fakes.slurm import MUNGE_KEY, OF_CHANCE
from tests.unit.lifecycle.test_older_images import newer, renew, with_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.outcome import Outcome
    from tests.conftest import Ledger
    from tests.fakes.world import World

pytestmark = pytest.mark.slow

CONF = "/etc/slurm/slurm.conf"
PAIRS = 12


@dataclass(frozen=True, kw_only=True)
class Story:
    """A verb on a world: what is there before, and the verb."""

    before: Callable[[World], object]
    verb: Callable[[World], Outcome]


def nothing(_world: World) -> None:
    """Nothing is there."""


def drifted(world: World) -> None:
    """A node whose privileges, files and devices somebody changed."""
    world.begin_with(2)
    node = world.engine.nodes["c001"]
    node.privileged, node.devices = True, ()
    node.files[CONF] = replace(node.files[CONF], content=b"edited\n")
    world.engine.nodes["c000"].files.pop(MUNGE_KEY)


def plain_source(world: World) -> None:
    """A stopped node, to be copied."""
    world.begin_with(1)
    world.create("web", role="plain")
    start_stop.stop_nodes(world.driver, ["web"], world.host, reporter=world.reporter)


def stopped(world: World) -> None:
    """A node that was unreachable while another came."""
    world.begin_with(2)
    start_stop.stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    world.create("web", role="plain")


def with_job(world: World) -> None:
    """A batch job on a node."""
    world.begin_with(2)
    world.slurm.jobs["c001"] = "17"


def older(world: World) -> None:
    """Nodes with an older image, one of them with an order of its own and a port; the controller has a queue."""
    world.begin_with(1)
    world.create("web", role="plain", gpus="none")
    world.driver.expose("web", Exposure(host_port=8080, node_port=80))
    with_state(world)


STORIES = {
    "cluster up": Story(before=nothing, verb=lambda world: world.up(2)),
    "cluster up, growing": Story(before=lambda world: world.up(1), verb=lambda world: world.up(2)),
    "cluster up, shrinking": Story(before=lambda world: world.begin_with(2), verb=lambda world: world.up(1)),
    "cluster up, repairing": Story(before=drifted, verb=lambda world: world.up(2)),
    "cluster up, with a folder": Story(before=nothing, verb=lambda world: world.up(spec=world.spec(1, share=True))),
    "cluster up --renew": Story(before=older, verb=lambda world: renew(world, newer(world, 1))),
    "create-node": Story(before=lambda world: world.up(1), verb=lambda world: world.create("c001", gpus="2")),
    "create-node, the first": Story(before=nothing, verb=lambda world: world.create("web", role="plain")),
    "clone": Story(
        before=plain_source,
        verb=lambda w: clone_node(w.driver, CloneOrder(source="web", name="copy"), w.host, reporter=w.reporter),
    ),
    "rm": Story(
        before=lambda world: world.begin_with(2),
        verb=lambda world: remove_nodes.remove_nodes(world.driver, ["c001"], world.host, reporter=world.reporter),
    ),
    "rm --force": Story(
        before=with_job,
        verb=lambda world: remove_nodes.remove_nodes(
            world.driver, ["c001"], world.host, reporter=world.reporter, policy=JobsPolicy(force=True)
        ),
    ),
    "stop": Story(
        before=lambda world: world.begin_with(2),
        verb=lambda world: start_stop.stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter),
    ),
    "start": Story(
        before=stopped,
        verb=lambda world: start_stop.start_nodes(world.driver, ["c001"], world.host, reporter=world.reporter),
    ),
    "cluster down": Story(before=lambda world: world.begin_with(2), verb=lambda world: world.down()),
    "cluster down, purging": Story(
        before=lambda world: world.up(spec=world.spec(1, share=True)), verb=lambda world: world.down(purge=True)
    ),
}


def look(world: World) -> dict[str, Any]:
    """All there is, apart from the bytes of keys, which are the same on every node."""
    dump = world.engine.dump()
    keys = set()
    for name, node in dump["nodes"].items():
        if MUNGE_KEY in node.files:
            keys.add(tuple(node.files[path].content for path in OF_CHANCE if path in node.files))
        for path in OF_CHANCE:
            if path in node.files:
                node.files[path] = replace(node.files[path], content=b"")
        if node.labels["gpuprov.role"] == "slurm" and node.status == "running":
            assert world.slurm.read[name] == node.files[CONF].content, f"the daemons of {name} have read another file"
    assert len(keys) <= 1
    dump["folders"] = (dict(world.host.folders.there), list(world.host.folders.aside))
    dump["drains"] = {name: drain for name, drain in world.slurm.drains.items() if name in dump["nodes"]}
    return dump


def begin(world: World, story: Story) -> None:
    world.empty()
    world.slurm.read.clear()
    world.slurm.drains.clear()
    world.slurm.down.clear()
    world.engine.faults.clear()
    story.before(world)
    world.engine.faults.clear()


def kill(world: World, story: Story, step: int) -> tuple[str, str] | None:
    """Kill the verb at this step, counted from 1; None if it was done before."""
    world.engine.faults.clear()
    world.engine.faults.raise_at(Killed(), nth=step)
    try:
        story.verb(world)
    except Killed:
        world.slurm.forget_runs()
        return world.engine.faults.passed[step - 1]
    finally:
        world.engine.faults.clear()
    return None


def check(world: World, story: Story, wanted: dict[str, Any], where: object) -> None:
    """The verb once more gives what is wanted, and then changes nothing."""
    try:
        story.verb(world)
    except TimedOut as error:
        pytest.fail(f"killed at {where}: {error}")
    assert look(world) == wanted, where
    assert story.verb(world).unchanged, where
    assert look(world) == wanted, where


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "_READY_BUDGET_S", 0.5)


@pytest.fixture(params=STORIES)
def told(request: pytest.FixtureRequest, world: World) -> tuple[str, Story, dict[str, Any]]:
    """A story, and what an undisturbed run of its verb leaves."""
    story = STORIES[request.param]
    begin(world, story)
    story.verb(world)
    wanted = look(world)
    assert story.verb(world).unchanged
    return request.param, story, wanted


def test_killed_at_every_step(world: World, told: tuple[str, Story, dict[str, Any]], ledger: Ledger) -> None:
    name, story, wanted = told
    tried = 0
    for step in count(1):
        begin(world, story)
        where = kill(world, story, step)
        if where is None:
            break
        check(world, story, wanted, where)
        tried += 1
    assert tried >= 5
    ledger.add("fake", verb=name, steps=tried, pairs=0)


def test_killed_at_some_pairs_of_steps(world: World, told: tuple[str, Story, dict[str, Any]]) -> None:
    name, story, wanted = told
    dice = random.Random(name)
    begin(world, story)
    world.engine.faults.clear()
    story.verb(world)
    steps = len(world.engine.faults.passed)
    for _ in range(PAIRS):
        begin(world, story)
        where = [kill(world, story, dice.randint(1, steps)) for _turn in range(2)]
        assert where[0] is not None
        check(world, story, wanted, where)


@pytest.mark.long
def test_killed_at_every_pair_of_steps(world: World, told: tuple[str, Story, dict[str, Any]], ledger: Ledger) -> None:
    name, story, wanted = told
    tried = 0
    for first in count(1):
        for second in count(1):
            begin(world, story)
            where = [kill(world, story, first), kill(world, story, second)]
            if None in where:
                break
            check(world, story, wanted, where)
            tried += 1
        if where[0] is None:
            break
    assert tried >= 20
    ledger.add("fake", verb=name, steps=0, pairs=tried)
