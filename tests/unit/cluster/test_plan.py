from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.leases import read_leases
from gpuprov.cluster.placement import Place
from gpuprov.cluster.plan import Plan, plan_cluster
from gpuprov.cluster.state import ClusterState, observe_cluster
from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.drivers.base import LABEL_FINGERPRINT, LABEL_GPUS
from gpuprov.gpu.allocate import Claims
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import NodesSpec

if TYPE_CHECKING:
    from gpuprov.gpu.models import HostGpus
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from tests.fakes.world import World


def plan(world: World, spec: ClusterSpec, state: ClusterState | None = None, *, prune: bool = False) -> Plan:
    return plan_on(world, spec, world.gpus, state, prune=prune)


def plan_on(
    world: World, spec: ClusterSpec, gpus: HostGpus, state: ClusterState | None = None, *, prune: bool = False
) -> Plan:
    state = state or observe_cluster(world.driver, "lab")
    leases = read_leases((*state.nodes, *state.others), engine="fake")
    place = Place(host="here", gpus=gpus, leases=leases, claims=Claims(engine="fake"))
    return plan_cluster(spec, state, place, version="1", expect=world.driver, prune=prune)


def names(plan: Plan) -> dict[str, list[str]]:
    """What is to be done to which node, without what is empty."""
    found = {
        "remove": list(plan.remove),
        "create": [design.name for design in plan.create],
        "repair": [design.name for design in plan.repair],
        "start": list(plan.start),
        "keep": [design.name for design in plan.keep],
    }
    return {act: nodes for act, nodes in found.items() if nodes}


def test_nothing_is_there(world: World) -> None:
    planned = plan(world, world.spec(2))
    assert names(planned) == {"create": ["c000", "c001"]}
    assert planned.lines() == (
        "create network gpbr0 10.0.3.1/24",
        "create network gpbr1 (nodes only)",
        "create node c000 10.0.3.2 role slurm, 1 GPU shared (simulated)",
        "create node c001 10.0.3.3 role slurm, 1 GPU shared (simulated)",
    )


def test_all_is_there(world: World) -> None:
    world.begin_with(2)
    planned = plan(world, world.spec(2))
    assert names(planned) == {"keep": ["c000", "c001"]}
    assert planned.lines() == ()


def test_some_of_everything(world: World) -> None:
    world.begin_with(5)
    world.create("web", role="plain")
    state = observe_cluster(world.driver, "lab")
    nodes = {node.name: node for node in state.nodes}
    nodes["c001"] = changed(nodes["c001"], devices=())
    nodes["c002"] = changed(nodes["c002"], status="stopped")
    labels = {key: value for key, value in nodes["c003"].labels.items() if key != LABEL_FINGERPRINT}
    nodes["c003"] = changed(nodes["c003"], labels=labels)
    planned = plan(world, world.spec(4), replace(state, nodes=tuple(nodes.values())))
    assert names(planned) == {
        "remove": ["c003", "c004"],
        "create": ["c003"],
        "repair": ["c001"],
        "start": ["c002"],
        "keep": ["c000", "c002", "web"],
    }
    assert [design.name for design in planned.members] == ["c000", "c001", "c002", "c003", "web"]


def test_a_changed_lease_is_a_repair(world: World) -> None:
    world.begin_with(2)
    planned = plan(world, world.spec(2, per_node=2))
    assert names(planned) == {"repair": ["c000", "c001"]}
    assert "devices" in planned.drift["c000"].words
    assert LABEL_GPUS in planned.drift["c000"].words


def test_kept_nodes_keep_their_gpus(world: World) -> None:
    world.begin_with(4)
    before = {node.name: node.labels[LABEL_GPUS] for node in observe_cluster(world.driver, "lab").nodes}
    planned = plan(world, world.spec(8))
    after = {design.name: ",".join(design.gpus) for design in planned.members}
    assert {name: after[name] for name in before} == before


def test_nodes_that_are_removed_leave_their_gpus_to_new_ones(world: World) -> None:
    spec = world.spec(4, sharing="exclusive")
    world.up(spec=spec)
    planned = plan(world, changed(spec, nodes=changed(spec.nodes, prefix="d")), prune=True)
    assert names(planned) == {"remove": ["c000", "c001", "c002", "c003"], "create": ["d000", "d001", "d002", "d003"]}


def test_a_gpu_that_has_gone_is_an_error_of_the_host(world: World) -> None:
    world.begin_with(4)
    gone = replace(world.gpus, gpus=world.gpus.gpus[:3])
    with pytest.raises(HostNotReady, match="c003"):
        plan_on(world, world.spec(4), gone)


def test_a_host_without_gpus_serves_nodes_without(world: World) -> None:
    none = replace(world.gpus, gpus=())
    planned = plan_on(world, world.spec(2, per_node=0), none)
    assert [design.access for design in planned.create] == ["none", "none"]
    with pytest.raises(UsageError):
        plan_on(world, world.spec(2), none)


def test_another_prefix_is_another_set_of_nodes(world: World) -> None:
    world.begin_with(2)
    spec = world.spec(2, nodes=NodesSpec(count=2, prefix="g"))
    with pytest.raises(UsageError, match=r"10\.0\.3\.2 of g000 is in use"):
        plan(world, spec)


def test_a_changed_role_of_the_spec_leaves_nodes_as_they_are(world: World) -> None:
    world.begin_with(2)
    planned = plan(world, world.spec(3, nodes=NodesSpec(count=3, role="plain")))
    assert {design.name: design.role for design in planned.members} == {
        "c000": "slurm",
        "c001": "slurm",
        "c002": "plain",
    }
    assert planned.role_lines("plain") == ("c[000-001]: keep the role slurm; new nodes get the role plain",)
    assert planned.role_lines("slurm") == ("c002: keep the role plain; new nodes get the role slurm",)


def test_a_host_makes_its_part_alone_and_keeps_numbers_and_addresses(world: World) -> None:
    state = observe_cluster(world.driver, "lab")
    mine = Place(host="here", gpus=world.gpus, leases=(), claims=Claims(), nodes=frozenset({"c002", "c003"}))
    planned = plan_cluster(world.spec(6), state, mine, version="1", expect=world.driver)
    assert [(one.name, one.address, one.private_address) for one in planned.create] == [
        ("c002", "10.0.3.4", "10.0.5.3"),
        ("c003", "10.0.3.5", "10.0.5.4"),
    ]
    taken = replace(mine, taken={"10.0.5.4": "node login on hinton"})
    with pytest.raises(UsageError, match=r"10\.0\.5\.4 of c003 is in use") as caught:
        plan_cluster(world.spec(6), state, taken, version="1", expect=world.driver)
    assert "login on hinton" in caught.value.evidence
