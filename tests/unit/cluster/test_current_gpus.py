"""Simulated GPUs whose UUIDs begin otherwise than when nodes got them: the same GPUs, to every command."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.expected_nodes import expect_node
from gpuprov.cluster.gpu_board import build_rows
from gpuprov.cluster.leases import read_leases
from gpuprov.cluster.state import observe_cluster, with_current_gpus
from gpuprov.core.errors import UsageError
from gpuprov.core.reporter import Silent
from gpuprov.drivers.base import LABEL_GPUS
from gpuprov.gpu.observe import observe
from gpuprov.lifecycle.cluster_up import preview_changes
from gpuprov.lifecycle.verify import verify_cluster
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from tests.fakes.world import World

OLD, NEW = (observe(root=NOWHERE, mode="simulated", simulated_count=4, seed=seed) for seed in ("0000000a", "0000000b"))
REAL = replace(NEW, simulated=False)


@pytest.fixture
def moved(world: World) -> World:
    """Three nodes, each with one GPU, on a host that now gives its GPUs other UUIDs."""
    world.gpus = OLD
    world.up(3)
    assert labels(world) == [unit.uuid for unit in OLD.units[:3]]
    world.gpus = NEW
    world.engine.faults.clear()
    return world


def labels(world: World) -> list[str]:
    return [node.labels[LABEL_GPUS] for _, node in sorted(world.engine.nodes.items())]


def test_a_simulated_gpu_is_known_by_what_follows_the_seed() -> None:
    assert [NEW.current(unit.uuid) for unit in OLD.units] == [unit.uuid for unit in NEW.units]
    assert [NEW.current(unit.uuid) for unit in NEW.units] == [unit.uuid for unit in NEW.units]
    assert [REAL.current(unit.uuid) for unit in OLD.units] == [unit.uuid for unit in OLD.units]
    for other in ("GPU-0000000a", "MIG-1", "", OLD.units[0].uuid[:-1] + "f"):
        assert NEW.current(other) == other


def test_the_state_has_the_host_s_uuids_and_is_otherwise_the_same(moved: World) -> None:
    moved.create("web", role="plain", gpus="2")
    moved.create("none", role="plain", gpus="none")
    before = observe_cluster(moved.driver, "lab")
    after = with_current_gpus(before, NEW)
    assert [node.labels.get(LABEL_GPUS) for node in after.nodes[:3]] == [unit.uuid for unit in NEW.units[:3]]
    assert with_current_gpus(after, OLD).nodes[:3] == before.nodes[:3]
    assert with_current_gpus(after, NEW) == after
    assert [node for node in before.nodes if not node.labels.get(LABEL_GPUS)] == [
        node for node in after.nodes if not node.labels.get(LABEL_GPUS)
    ]
    elsewhere = replace(before, nodes=(), others=before.nodes)
    assert with_current_gpus(elsewhere, NEW).others == after.nodes
    assert with_current_gpus(before, REAL) == before


def test_cluster_up_plans_no_change(moved: World) -> None:
    assert preview_changes(moved.driver, moved.spec(3), moved.host, reporter=Silent()) == ()
    assert moved.up(3).changed == ()
    assert moved.steps() == []


def test_a_cluster_that_grows_gives_the_free_gpu(moved: World) -> None:
    moved.up(4)
    assert labels(moved)[3] == NEW.units[3].uuid


def test_the_board_shows_the_holders(moved: World) -> None:
    leases = read_leases(observe_cluster(moved.driver, "lab").nodes, engine="fake")
    rows = build_rows(NEW, leases)
    assert [(row.uuid, [lease.node for lease in row.holders]) for row in rows] == [
        (unit.uuid, holders) for unit, holders in zip(NEW.units, [["c000"], ["c001"], ["c002"], []], strict=True)
    ]


def test_verify_expects_the_host_s_uuids(moved: World) -> None:
    report = verify_cluster(moved.driver, "lab", host=moved.host, nodes=None, reporter=Silent())
    assert [node.gpus for node in report.nodes] == [(unit.uuid,) for unit in NEW.units[:3]]
    state = observe_cluster(moved.driver, "lab")
    assert expect_node(state.nodes[0], state, NEW).host_problem is not None
    current = with_current_gpus(state, NEW)
    assert expect_node(current.nodes[0], current, NEW).host_problem is None


def test_create_node_sees_who_holds_what(moved: World) -> None:
    moved.create("job", role="plain", gpus="1", sharing="exclusive")
    assert moved.engine.nodes["job"].labels[LABEL_GPUS] == NEW.units[3].uuid
    with pytest.raises(UsageError) as caught:
        moved.create("late", role="plain", gpus="1", sharing="exclusive")
    assert f"GPU 0 {NEW.units[0].uuid}: c000 (cluster lab, shared" in caught.value.evidence
    assert "late" not in moved.names


def test_create_node_finds_the_node_that_it_made(world: World) -> None:
    world.gpus = OLD
    world.create("job", role="plain", gpus="2")
    world.gpus = NEW
    world.engine.faults.clear()
    assert world.create("job", role="plain", gpus="2").changed == ()
    assert world.steps() == []
