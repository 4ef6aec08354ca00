"""A node of ours can be removed whatever it is like: only jobs, and nodes that need it, speak against it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError, TimedOut, UsageError
from gpuprov.drivers.base import LABEL_ADDRESS, LABEL_FINGERPRINT, LABEL_GPUS, LABEL_PRIVATE_ADDRESS, LABEL_ROLE
from gpuprov.lifecycle.leaving import JobsPolicy
from gpuprov.lifecycle.remove_nodes import remove_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.world import World


def unfinished(world: World) -> None:
    del world.engine.nodes["c002"].labels[LABEL_FINGERPRINT]


def without_labels(world: World) -> None:
    labels = world.engine.nodes["c002"].labels
    world.engine.nodes["c002"].labels = {"gpuprov.cluster": labels["gpuprov.cluster"]}


def of_an_unknown_role(world: World) -> None:
    world.engine.nodes["c002"].labels[LABEL_ROLE] = "boss"


def without_networks(world: World) -> None:
    node = world.engine.nodes["c002"]
    node.attachments = ()
    node.labels |= {LABEL_ADDRESS: "", LABEL_PRIVATE_ADDRESS: ""}


def on_the_private_network(world: World) -> None:
    node = world.engine.nodes["c002"]
    node.attachments = tuple(one for one in node.attachments if one.interface == "eth1")
    node.labels[LABEL_ADDRESS] = ""


def with_gpus_that_have_gone(world: World) -> None:
    world.engine.nodes["c002"].labels[LABEL_GPUS] = "GPU-1"
    world.gpus = replace(world.gpus, gpus=())


def stopped(world: World) -> None:
    world.driver.stop_node("c002")


def in_an_error(world: World) -> None:
    world.engine.nodes["c002"].status = "error"


def that_refuses_commands(world: World) -> None:
    error = EngineError("it cannot be entered", evidence="e", fix="f")
    world.engine.faults.raise_at(error, "run", subject="c002", lasting=True)
    world.engine.faults.raise_at(error, "pull", subject="c002", lasting=True)
    world.engine.faults.raise_at(error, "push", subject="c002", lasting=True)


def that_does_not_answer(world: World) -> None:
    world.slurm.silent.add("c002")
    error = TimedOut("it did not answer", evidence="e", fix="f")
    world.engine.faults.raise_at(error, "run", subject="c002", lasting=True)


BROKEN = (
    unfinished, without_labels, of_an_unknown_role, without_networks, on_the_private_network, with_gpus_that_have_gone,
    stopped, in_an_error, that_refuses_commands, that_does_not_answer,
)  # fmt: skip


@pytest.mark.parametrize("break_it", BROKEN)
def test_a_broken_node_is_removed(world: World, break_it: Callable[[World], None]) -> None:
    world.begin_with(3)
    break_it(world)
    outcome = remove_nodes(world.driver, ["c002"], world.host, reporter=world.reporter)
    assert outcome.changed[0] == "removed c002"
    assert world.names == ["c000", "c001"]
    assert "c002" not in world.file("c000", "/etc/slurm/slurm.conf")


def test_a_controller_goes_alone_by_force_and_the_next_up_makes_it_again(world: World) -> None:
    world.begin_with(3)
    with pytest.raises(UsageError, match="c000 is the Slurm controller"):
        remove_nodes(world.driver, ["c000"], world.host, reporter=world.reporter)
    policy = JobsPolicy(force=True)
    outcome = remove_nodes(world.driver, ["c000"], world.host, reporter=world.reporter, policy=policy)
    assert outcome.changed[0] == "removed c000"
    assert "warn c000 is the Slurm controller of cluster lab: its other nodes: c001, c002" in world.reporter.lines
    assert world.up(3).changed
    assert world.up(3).unchanged
