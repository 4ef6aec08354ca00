"""What verify expects of nodes that are on one of the two networks only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.expected_nodes import expect_node
from gpuprov.cluster.state import observe_cluster
from gpuprov.shapes.whole import Member
from gpuprov.verify.checks.network import judge_gateway, judge_private, judge_public
from gpuprov.verify.models import Observation

if TYPE_CHECKING:
    from gpuprov.verify.models import Expectation
    from tests.fakes.world import World


def expected(world: World, name: str) -> Expectation:
    state = observe_cluster(world.driver, "lab")
    node = state.node(name)
    assert node is not None
    return expect_node(node, state, None)


@pytest.fixture
def three(world: World) -> World:
    world.begin_with(1)
    world.create("near", role="plain", network="nat")
    world.create("far", role="plain", network="private")
    return world


def test_a_node_is_asked_about_its_own_networks_alone(three: World) -> None:
    addresses = {node.name: dict(node.addresses) for node in observe_cluster(three.driver, "lab").nodes}
    peers = {peer.name: (peer.address, peer.private_address) for peer in expected(three, "far").peers}
    assert peers == {"c000": ("", "10.0.5.1"), "near": ("", "")}
    assert expected(three, "far").gateway is None
    peers = {peer.name: (peer.address, peer.private_address) for peer in expected(three, "near").peers}
    assert peers == {"c000": ("10.0.3.2", ""), "far": ("", "")}
    assert expected(three, "near").gateway == "10.0.3.1"
    peers = {peer.name: (peer.address, peer.private_address) for peer in expected(three, "c000").peers}
    assert set(addresses["far"]) == {"eth1"}
    assert peers["far"] == ("", addresses["far"]["eth1"].partition("/")[0])


def test_a_network_that_it_is_not_on_is_no_failure(three: World) -> None:
    seen = Observation(facts={"network": {"eth1": {"reached": ["10.0.5.1"]}}})
    far = expected(three, "far")
    assert [judge(far, seen).status for judge in (judge_gateway, judge_public, judge_private)] == [
        "skip", "skip", "pass",
    ]  # fmt: skip


def test_an_address_that_a_node_has_lost_is_still_asked_for(three: World) -> None:
    node = three.engine.nodes["c000"]
    node.attachments = tuple(one for one in node.attachments if one.interface != "eth0")
    assert expected(three, "c000").gateway == "10.0.3.1"
    facts = {"network": {"eth0": {"reached": [], "problem": "no such device"}}}
    assert judge_gateway(expected(three, "c000"), replace(Observation(), facts=facts)).status == "fail"


def test_nodes_of_other_hosts_are_reached_by_the_private_network_alone(three: World) -> None:
    state = observe_cluster(three.driver, "lab")
    beside = (Member(name="c001", address="10.0.3.3", private_address="10.0.5.2", role="slurm", host="hinton"),)
    peers = {}
    for node in state.nodes:
        found = expect_node(node, state, None, beside=beside).peers
        peers[node.name] = [(peer.address, peer.private_address) for peer in found if peer.name == "c001"]
    assert peers == {"c000": [("", "10.0.5.2")], "far": [("", "10.0.5.2")], "near": []}
