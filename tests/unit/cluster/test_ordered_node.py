"""What is decided about a node that was ordered by itself: its name, spec, addresses and design, with data alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.order_label import write_order
from gpuprov.cluster.ordered_node import (
    choose_addresses,
    design_ordered,
    first_draft,
    made_by,
    refuse_taken_name,
    with_order,
)
from gpuprov.cluster.placement import Place
from gpuprov.cluster.state import ClusterState
from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_FINGERPRINT, LABEL_ORDER, NodeState
from gpuprov.gpu.allocate import Claims, GpusTaken, Lease
from gpuprov.gpu.observe import observe
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, GpuSpec, MountSpec, NodesSpec
from gpuprov.spec.draft import CHOOSABLE, PREFIX
from tests.fakes.orders import node_order
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.node_order import NodeOrder

GPUS = observe(root=NOWHERE, mode="simulated", simulated_count=4)
SPEC = ClusterSpec(nodes=NodesSpec(role="plain"))


def ordered(name: str = "c004", **more: Any) -> NodeOrder:
    return node_order(name, **more)


def node(name: str = "c004", **labels: str) -> NodeState:
    return NodeState(name=name, status="running", labels=labels)


def state(*nodes: NodeState, others: tuple[NodeState, ...] = (), recorded: ClusterSpec | None = None) -> ClusterState:
    return ClusterState(name="lab", recorded=recorded, settled=recorded, nodes=nodes, others=others, networks=())


def finished(order: NodeOrder) -> NodeState:
    return node(order.name, **{LABEL_CLUSTER: "lab", LABEL_FINGERPRINT: "1", LABEL_ORDER: write_order(order)})


def test_a_finished_node_of_the_same_order_was_made_by_it() -> None:
    order = ordered(gpus="2")
    assert made_by(order, state(finished(order))) == finished(order)
    assert made_by(changed(order, gpu_mode="simulated"), state(finished(order))), "no part of what the node is"
    unfinished = node(**{LABEL_CLUSTER: "lab", LABEL_ORDER: write_order(order)})
    for others in (state(), state(unfinished), state(finished(ordered(gpus="1"))), state(finished(ordered("c005")))):
        assert made_by(order, others) is None


@pytest.mark.parametrize(
    "there",
    [
        state(),
        state(finished(ordered("c005"))),
        state(finished(ordered())),
        state(node(**{LABEL_CLUSTER: "lab"})),
        state(others=(node(**{LABEL_CLUSTER: "other"}),)),
    ],
    ids=["nothing", "another name", "the same order", "unfinished", "unfinished, of another cluster"],
)
def test_a_name_that_can_be_had(there: ClusterState) -> None:
    refuse_taken_name(ordered(), there, engine="fake")


@pytest.mark.parametrize(
    ("there", "kind", "evidence"),
    [
        (state(finished(ordered(gpus="2"))), UsageError, "cluster lab has a node c004 (running)"),
        (
            state(others=(node(**{LABEL_CLUSTER: "other", LABEL_FINGERPRINT: "1"}),)),
            UsageError,
            "cluster other has a node c004",
        ),
        (state(others=(node(),)), NotOurs, "fake has c004, running; it has no gpuprov label"),
    ],
    ids=["another order", "another cluster", "foreign"],
)
def test_a_name_that_is_taken(there: ClusterState, kind: type[UsageError], evidence: str) -> None:
    with pytest.raises(kind) as refused:
        refuse_taken_name(ordered(), there, engine="fake")
    assert evidence in refused.value.evidence


@pytest.mark.parametrize(
    ("name", "left"), [("c000", CHOOSABLE - {PREFIX}), ("c007", CHOOSABLE - {PREFIX}), ("web", CHOOSABLE)]
)
def test_a_cluster_that_begins_with_a_usual_name_keeps_the_usual_prefix(name: str, left: frozenset[str]) -> None:
    draft = first_draft(ordered(name))
    assert (draft.spec.name, draft.left) == ("lab", left)


def test_what_was_ordered_for_the_node_goes_over_the_spec_of_its_cluster() -> None:
    one, two = (MountSpec(source="/srv", target=target) for target in ("/one", "/two"))
    spec = ClusterSpec(nodes=NodesSpec(mounts=(one,), environment=("A=1", "B=1")))
    order = ordered(mounts=(two,), environment=("B=2",), privileged=True)
    nodes = with_order(spec, "plain", order).nodes
    assert (nodes.role, nodes.mounts, nodes.privileged) == ("plain", (one, two), True)
    assert nodes.environment == ("A=1", "B=2")
    assert with_order(spec, "slurm", None) == spec
    privileged = changed(spec, nodes=changed(spec.nodes, privileged=True))
    assert with_order(privileged, "slurm", ordered()).nodes.privileged


@pytest.mark.parametrize(
    ("order", "taken", "found"),
    [
        (ordered(), {}, {"eth0": "10.0.3.6/24", "eth1": "10.0.5.5/24"}),
        (ordered(address="10.0.3.9"), {}, {"eth0": "10.0.3.9/24", "eth1": "10.0.5.8/24"}),
        (ordered(network="nat"), {}, {"eth0": "10.0.3.6/24"}),
        (ordered(network="private"), {}, {"eth1": "10.0.5.5/24"}),
        (ordered("web"), {}, {"eth0": "10.0.3.253/24", "eth1": "10.0.5.252/24"}),
        (ordered("web"), {"10.0.3.253": "node x"}, {"eth0": "10.0.3.252/24", "eth1": "10.0.5.251/24"}),
        (ordered(), {"10.0.3.6": "node x"}, {"eth0": "10.0.3.253/24", "eth1": "10.0.5.252/24"}),
    ],
)
def test_addresses(order: NodeOrder, taken: Mapping[str, str], found: Mapping[str, str]) -> None:
    chosen = choose_addresses(order, SPEC, taken)
    assert {interface: str(address) for interface, address in chosen.items()} == found


@pytest.mark.parametrize(
    ("order", "taken", "what"),
    [
        (ordered(), {"10.0.5.5": "node x"}, "the private address 10.0.5.5, which belongs to 10.0.3.6, is in use"),
        (ordered(address="10.0.3.9"), {"10.0.3.9": "node x"}, "a node cannot have the address 10.0.3.9"),
    ],
)
def test_an_address_that_is_taken(order: NodeOrder, taken: Mapping[str, str], what: str) -> None:
    with pytest.raises(UsageError) as refused:
        choose_addresses(order, SPEC, taken)
    assert refused.value.what == what
    assert "node x" in refused.value.evidence


def place(*leases: Lease) -> Place:
    return Place(host="here", gpus=GPUS, leases=leases, claims=Claims(engine="fake"))


def test_a_design_has_the_gpus_that_were_ordered_else_those_of_the_cluster() -> None:
    recorded = changed(SPEC, gpus=GpuSpec(per_node=2))
    uuids = tuple(unit.uuid for unit in GPUS.units)
    assert design_ordered(ordered(gpus="3"), SPEC, state(), place()).gpus == uuids[:3]
    assert design_ordered(ordered(), SPEC, state(recorded=recorded), place()).gpus == uuids[:2]
    assert design_ordered(ordered(gpus="none"), SPEC, state(recorded=recorded), place()).gpus == ()
    design = design_ordered(ordered(), SPEC, state(), place())
    assert (design.name, design.host, design.address) == ("c004", "here", "10.0.3.6")
    assert design.summary == "c004 10.0.3.6 role plain, 1 GPU shared (simulated)"
    alone = design_ordered(ordered(network="private", gpus="none"), SPEC, state(), place())
    assert alone.summary == "c004 10.0.5.5 role plain, no GPU"


def test_a_design_takes_no_gpu_that_somebody_has_to_himself() -> None:
    everything = tuple(unit.uuid for unit in GPUS.units)
    with pytest.raises(GpusTaken) as refused:
        design_ordered(ordered(), SPEC, state(), place(Lease(node="greedy", gpus=everything, sharing="exclusive")))
    assert "greedy" in refused.value.evidence
