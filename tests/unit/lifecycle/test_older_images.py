"""Nodes with an older image are told of with what they lack, and replaced by `--renew` with nothing of theirs lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.images import node_recipe
from gpuprov.cluster.replacements import read_replacements
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError, UsageError
from gpuprov.drivers.base import LABEL_FINGERPRINT, LABEL_RECIPE, File
from gpuprov.lifecycle.cluster_up import UpOrder, preview_up
from gpuprov.lifecycle.kept_queue import queue_file
from gpuprov.lifecycle.remove_nodes import remove_nodes
from gpuprov.lifecycle.replace_older import find_replaceable, replace_older
from gpuprov.lifecycle.rows import cluster_rows
from gpuprov.provision.recipe_record import dump_recipe_record, record_recipe
from gpuprov.roles.registry import ROLE_NAMES, ROLES
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ImageSpec
from gpuprov.shapes.node import Exposure
from tests.fakes.faults import Killed
from tests.fakes.slurm import FakeJob

if TYPE_CHECKING:
    from gpuprov.cluster.state import ClusterState
    from gpuprov.lifecycle.cluster_up import UpResult
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from tests.fakes.world import World

pytestmark = pytest.mark.slow

LACK = "lacks numpy==1.26"
STATE = "/var/lib/slurm/slurmctld/job_state"


def newer(world: World, count: int = 3, **more: Any) -> ClusterSpec:
    """A spec with one package more; the engine has the images for it already."""
    spec = world.spec(count, image=ImageSpec(python=("numpy==1.26",)), **more)
    for role in ROLE_NAMES:
        recipe = node_recipe(spec, ROLES[role].recipe, world.gpus, init="systemd")
        record = record_recipe(recipe, recipe.hash_contents())
        image = world.engine.images[role]
        labels = {**image.labels, LABEL_FINGERPRINT: record.fingerprint, LABEL_RECIPE: dump_recipe_record(record)}
        world.engine.images[f"{role}-new"] = replace(image, id=f"{role}-new", name=f"new-{role}", labels=labels)
    return spec


def state(world: World) -> ClusterState:
    return observe_cluster(world.driver, "lab")


def renew(world: World, spec: ClusterSpec, **order: Any) -> UpResult:
    return replace_older(world.driver, UpOrder(spec=spec, **order), world.host, reporter=world.reporter)


def images(world: World) -> dict[str, str]:
    return {name: node.labels["gpuprov.image"] for name, node in sorted(world.engine.nodes.items())}


def with_state(world: World) -> None:
    """What the controller has written."""
    world.engine.nodes["c000"].files[STATE] = File(path=STATE, content=b"a queue")


def test_plan_status_and_up_say_which_nodes_have_an_older_image_and_what_it_lacks(world: World) -> None:
    world.begin_with(3)
    spec = newer(world)
    order = UpOrder(spec=spec)
    preview = preview_up(world.driver, order, world.host, reporter=world.reporter)
    assert (preview.changes, preview.older) == ((), (f"c[000-002]: image is older: {LACK}",))
    assert {row.health for row in cluster_rows(world.driver, "lab")} == {"ok"}, "nobody has asked for it yet"
    assert world.up(spec=spec).changed == ()
    assert f"c[000-002]: image is older: {LACK}" in "\n".join(world.reporter.lines)
    assert "gpuprov cluster up --renew" in "\n".join(world.reporter.lines)
    assert {row.health for row in cluster_rows(world.driver, "lab")} == {f"old image: {LACK}"}
    world.create("c007")
    assert {row.name: row.health for row in cluster_rows(world.driver, "lab")}["c007"] == "ok"


def test_older_nodes_are_replaced_one_after_the_other_and_the_controller_with_its_queue_last(world: World) -> None:
    world.begin_with(3)
    with_state(world)
    before = {node.name: node for node in state(world).nodes}
    spec = newer(world)
    assert renew(world, spec).changed == ("replace node c001", "replace node c002", "replace node c000")
    assert set(images(world).values()) == {"new-slurm"}
    for node in state(world).nodes:
        old = before[node.name]
        same = ("gpuprov.gpus", "gpuprov.address", "gpuprov.private-address", "gpuprov.sharing")
        assert [node.labels[label] for label in same] == [old.labels[label] for label in same]
        assert node.addresses == old.addresses
    files = world.engine.nodes["c000"].files
    assert "mv .arriving slurmctld" in files["/etc/slurm/arrive"].content.decode()
    assert b"a queue" in files["/etc/slurm/arrive.tar"].content
    assert "/etc/slurm/arrive" not in world.engine.nodes["c001"].files
    assert not queue_file("lab", "c000", engine=world.driver.name).exists()
    assert read_replacements(state(world)) == {}
    assert not world.slurm.drains, "all take jobs again"
    assert {row.health for row in cluster_rows(world.driver, "lab")} == {"ok"}
    assert renew(world, spec).changed == ()


def test_what_create_node_was_asked_for_and_ports_stay_and_copies_are_left_alone(world: World) -> None:
    world.begin_with(2)
    world.create("c007", gpus="none", role="plain", environment=("A=b",))
    world.driver.stop_node("c001")
    world.create("c008", role="slurm", source="c001")
    exposure = Exposure(host_port=8080, node_port=80)
    world.driver.expose("c007", exposure)
    was = dict(world.engine.nodes["c007"].labels)
    world.driver.snapshot_node("c001", "good")
    spec = newer(world, 2)
    found = find_replaceable(world.driver, state(world), spec)
    assert (found.names, found.copies) == (("c001", "c007", "c000"), ("c008",))
    assert found.lost == "what is in c[000-001,007], and the snapshots of c001"
    renew(world, spec)
    node = world.engine.nodes["c007"]
    assert (node.labels["gpuprov.order"], node.labels["gpuprov.gpus"]) == (was["gpuprov.order"], "")
    assert [one.exposed for one in state(world).nodes if one.name == "c007"] == [(exposure,)]
    assert images(world)["c008"] == "gpuprov-image-slurm"


def test_jobs_on_a_node_are_waited_for_and_those_that_wait_are_kept(world: World) -> None:
    world.begin_with(3)
    world.slurm.queue = [FakeJob(id="17", nodes="c001"), FakeJob(id="18", state="PD")]
    world.slurm.on_look = lambda: world.slurm.queue.pop(0) if world.slurm.queue[0].id == "17" else None
    assert "replace node c000" in renew(world, newer(world)).changed
    assert [job.id for job in world.slurm.queue] == ["18"]


def test_a_queue_that_the_new_image_cannot_read_is_not_lost_unless_somebody_says_so(world: World) -> None:
    world.begin_with(2)
    spec = newer(world, 2)
    new = world.engine.images["slurm-new"]
    new.labels = {**new.labels, "gpuprov.queue-version": "24.11.5-4"}
    world.slurm.said = {"dpkg-query": "22.05.8-4", "grep -c .": "2\n"}
    with pytest.raises(UsageError, match="the queue on c000 would be lost with it") as caught:
        renew(world, spec)
    assert "jobs in it: 2" in caught.value.evidence
    assert set(images(world).values()) == {"gpuprov-image-slurm"}


def test_what_a_later_version_has_recorded_is_not_guessed(world: World) -> None:
    world.begin_with(2)
    world.create("web", role="plain", gpus="none", environment=("A=b",))
    labels = world.engine.nodes["web"].labels
    labels["gpuprov.order"] = labels["gpuprov.order"].replace("{", '{"racks":2,', 1)
    before = world.engine.dump()
    with pytest.raises(UsageError, match="the options with which web was created cannot be read"):
        world.up(2)
    labels["gpuprov.order"] = labels["gpuprov.order"].replace('"racks":2,', "")
    network = world.engine.networks["gpbr0"]
    told = {**network.labels, "gpuprov.replaced": '[{"name": "c001", "racks": 2}]'}
    world.engine.networks["gpbr0"] = changed(network, labels=told)
    with pytest.raises(EngineError, match="are being replaced in cluster lab cannot be read"):
        world.up(2)
    assert world.engine.dump()["nodes"].keys() == before["nodes"].keys()


def test_a_node_that_is_removed_while_it_is_replaced_stays_removed(world: World) -> None:
    world.begin_with(1)
    world.create("web", role="plain", gpus="none")
    world.engine.faults.raise_at(Killed(), "delete_node:done", subject="web")
    with pytest.raises(Killed):
        renew(world, newer(world, 1))
    world.slurm.forget_runs()
    world.engine.faults.clear()
    assert list(read_replacements(state(world))) == ["web"]
    preview = preview_up(world.driver, UpOrder(spec=newer(world, 1)), world.host, reporter=world.reporter)
    assert [line for line in preview.changes if line.startswith("create node web ")]
    remove_nodes(world.driver, ["web"], world.host, reporter=world.reporter)
    assert world.up(spec=newer(world, 1)).changed == ()
    assert world.names == ["c000"]


def test_nodes_of_an_image_that_was_refreshed_are_older_until_they_are_renewed(world: World) -> None:
    world.begin_with(2)
    spec = world.spec(2)
    image = world.engine.images["slurm"]
    fresh = replace(image, id="slurm-fresh", name=f"{image.name}-20991231235959")
    world.engine.images["slurm-fresh"] = fresh
    line = f"c[000-001]: image is older: packages are older than those of {fresh.name}"
    assert preview_up(world.driver, UpOrder(spec=spec), world.host, reporter=world.reporter).older == (line,)
    renew(world, spec)
    assert images(world) == {"c000": fresh.name, "c001": fresh.name}
    assert preview_up(world.driver, UpOrder(spec=spec), world.host, reporter=world.reporter).older == ()
