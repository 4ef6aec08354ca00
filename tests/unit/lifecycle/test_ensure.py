"""Nodes, clusters and images brought to a state: changed where needed, never twice, never in check mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.lifecycle.cluster_order import ClusterOrder
from gpuprov.lifecycle.ensure import NodeGoal, ensure_image_absent, ensure_image_built, ensure_node
from gpuprov.stories.ensure_cluster import ensure_cluster
from tests.fakes.engine import FakeNode
from tests.fakes.host import one_host
from tests.fakes.orders import node_order

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.lifecycle.before_after import BeforeAfter
    from gpuprov.stories.ensure_cluster import ClusterGoal
    from tests.fakes.world import World


def node(world: World, goal: NodeGoal = "present", *, check: bool = False, **order: Any) -> BeforeAfter:
    wanted = node_order(**{"name": "c003", **order})
    return ensure_node(world.driver, wanted, goal, world.host, reporter=world.reporter, check=check)


def cluster(world: World, goal: ClusterGoal = "present", *, check: bool = False, **order: Any) -> BeforeAfter:
    driver = world.driver
    driver.name = "lxd"  # the engine is part of the spec that is recorded
    return ensure_cluster(one_host(world, driver), ClusterOrder(**order), goal, check=check)


def test_a_node_is_made_once_stopped_started_and_removed(world: World) -> None:
    world.begin_with(3)
    first = node(world, gpus="1", address="10.0.3.5")
    assert first.changed[0] == "created node c003 10.0.3.5 role slurm, 1 GPU shared (simulated)"
    assert first.before == ()
    assert (first.after[0].name, first.after[0].status) == ("c003", "running")
    assert node(world, gpus="1", address="10.0.3.5").changed == ()
    assert node(world, "stopped").changed == ("stopped c003",)
    assert node(world, "stopped").changed == ()
    assert node(world).changed[0] == "started c003"
    gone = node(world, "absent")
    assert gone.changed[0] == "removed c003"
    assert (len(gone.before), gone.after) == (1, ())
    assert node(world, "absent").changed == ()


@pytest.mark.parametrize("goal", ["present", "stopped", "absent"])
def test_check_mode_says_the_change_and_makes_none(world: World, goal: NodeGoal) -> None:
    world.begin_with(3)
    name = "c002" if goal != "present" else "c003"
    world.engine.faults.clear()
    said = node(world, goal, name=name, check=True)
    assert said.changed
    assert world.steps() == []
    done = node(world, goal, name=name)
    assert done.changed[0] == said.changed[0], "what check mode says is what happens"


@pytest.mark.parametrize(
    ("order", "evidence"),
    [
        ({"gpus": "2"}, "the node holds 1 GPU ("),
        ({"gpus": "none"}, "the node holds 1 GPU ("),
        ({"gpus": "gpu3"}, "not gpu3"),
        ({"address": "10.0.3.77"}, "address is 10.0.3.3, not 10.0.3.77"),
        ({"role": "plain"}, "role is slurm, not plain"),
        ({"sharing": "exclusive"}, "sharing is shared, not exclusive"),
        ({"cluster": "other"}, "cluster is lab, not other"),
        ({"privileged": True}, "the node is not privileged"),
    ],
)
def test_a_node_that_is_not_as_asked_is_an_error_and_stays(world: World, order: dict[str, Any], evidence: str) -> None:
    world.begin_with(3)
    world.engine.faults.clear()
    with pytest.raises(UsageError, match="c001 exists, but differs from the request") as caught:
        node(world, name="c001", **order)
    assert evidence in caught.value.evidence
    assert "gpuprov rm c001" in caught.value.fix
    assert world.steps() == []


@pytest.mark.parametrize("goal", ["present", "stopped", "absent"])
def test_a_foreign_instance_is_left_alone(world: World, goal: NodeGoal) -> None:
    world.engine.nodes["c003"] = FakeNode(name="c003", labels={})
    with pytest.raises(NotOurs, match="c003 was not created by gpuprov"):
        node(world, goal)
    assert list(world.engine.nodes) == ["c003"]


def test_a_cluster_grows_to_its_count_once_and_is_removed_once(world: World) -> None:
    first = cluster(world, count=2)
    assert [row.name for row in first.after] == ["c000", "c001"]
    assert first.changed
    assert cluster(world, count=2).changed == ()
    assert cluster(world).changed == (), "the recorded spec is the start"
    said = cluster(world, count=3, check=True)
    assert said.changed[0].startswith("create node c002")
    assert world.names == ["c000", "c001"]
    assert cluster(world, "absent", check=True).changed[0] == "removed node c000"
    assert world.names == ["c000", "c001"]
    assert cluster(world, "absent").changed
    assert cluster(world, "absent", check=True).changed == ()
    assert cluster(world, "absent").changed == ()


@pytest.mark.parametrize("goal", ["present", "absent"])
@pytest.mark.parametrize("check", [True, False])
def test_an_empty_name_is_no_cluster_and_not_the_default_one(world: World, goal: ClusterGoal, *, check: bool) -> None:
    cluster(world, count=1)
    for name in ("", ".."):
        with pytest.raises(UsageError, match="is not a valid cluster name"):
            cluster(world, goal, name=name, check=check)
    assert world.names == ["c000"]


def test_the_cluster_of_a_file_is_the_one_that_is_removed(world: World, tmp_path: Path) -> None:
    cluster(world, count=1)
    file = tmp_path / "train.yaml"
    file.write_text("version: gpuprov/v1\nname: train\n")
    assert cluster(world, "absent", file=file).changed == ()
    assert world.names == ["c000"]
    assert cluster(world, "absent", file=file, name="lab").changed[0] == "removed node c000"


def test_an_image_that_is_there_is_not_built_and_one_is_removed_once(world: World) -> None:
    spec = world.spec()
    for check in (True, False):
        name, changed = ensure_image_built(
            world.driver, spec, world.host, world.gpus, reporter=world.reporter, check=check
        )
        assert (name, changed) == ("gpuprov-image-slurm", ())
    gone = "gpuprov-image-slurm"
    said = ensure_image_absent(world.driver, gone, world.host, reporter=world.reporter, check=True)
    assert said == ("removed image gpuprov-image-slurm",)
    assert "slurm" in world.engine.images
    assert ensure_image_absent(world.driver, gone, world.host, reporter=world.reporter) == said
    assert ensure_image_absent(world.driver, gone, world.host, reporter=world.reporter) == ()
    name, changed = ensure_image_built(world.driver, spec, world.host, world.gpus, reporter=world.reporter, check=True)
    assert (name, changed) == (None, ("built an image for slurm nodes",))
