"""A host whose engine is a member of a cluster of its own: what is on other members takes names, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.find_node import get_node
from gpuprov.cluster.leases import read_leases
from gpuprov.cluster.network_plan import network_requests
from gpuprov.cluster.room import find_room
from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.surroundings import Surroundings
from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.drivers.networks import NetworkState
from gpuprov.lifecycle.rows import list_rows
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, HostSpec
from gpuprov.spec.draft import CHOOSABLE, Draft
from tests.fakes.engine import FakeNode

if TYPE_CHECKING:
    from tests.fakes.world import World

SPANS = ClusterSpec(name="lab", hosts=(HostSpec(name="hoff"), HostSpec(name="hinton")))


@pytest.fixture
def beside(world: World) -> World:
    world.engine.nodes["c001"] = FakeNode(name="c001", member="m2", status="running", labels={"gpuprov.cluster": "lab"})
    return world


def test_it_takes_no_room_lease_or_address(beside: World) -> None:
    low = {"inotify": 128, "keys": 200, "neighbours": 65536}
    with_it = find_room(beside.driver, low, promised_gib=0)
    state = observe_cluster(beside.driver, "lab")
    assert (state.nodes, [node.name for node in state.others], state.taken_addresses()) == ((), ["c001"], {})
    assert read_leases(state.others, engine="fake") == ()
    del beside.engine.nodes["c001"]
    assert find_room(beside.driver, low, promised_gib=0) == with_it


def test_its_name_is_taken(beside: World) -> None:
    state = observe_cluster(beside.driver, "lab")
    chosen = Surroundings(beside.driver, beside.host, state).settle(Draft(spec=ClusterSpec(name="lab"), left=CHOOSABLE))
    assert chosen.nodes.prefix == "lab-"
    with pytest.raises(UsageError) as told:
        get_node(beside.driver, "c001")
    assert told.value.evidence == "c001 in fake is an instance on m2, another member of the engine's cluster"
    assert list_rows(beside.driver, everything=False) == ()
    (row,) = list_rows(beside.driver, everything=True)
    assert (row.name, row.host, row.cluster) == ("c001", "m2", "(foreign)")


@pytest.mark.parametrize(("joinable", "free"), [("lab", True), ("other", False), ("", False)])
def test_a_network_that_other_hosts_of_the_cluster_have_is_free(world: World, joinable: str, free: bool) -> None:
    network = SPANS.network
    for name, address in ((network.bridge, "10.0.3.1/24"), (network.private_bridge, None)):
        world.engine.networks[name] = NetworkState(name=name, managed=True, address=address, joinable=joinable)
    around = Surroundings(world.driver, world.host, observe_cluster(world.driver, "lab"))
    if free:
        around.refuse_taken_by_others(SPANS)
    else:
        with pytest.raises(NotOurs, match="exists and was not created by gpuprov"):
            around.refuse_taken_by_others(SPANS)


def test_networks_tell_whether_their_cluster_spans_hosts() -> None:
    assert {request.labels["gpuprov.hosts"] for request in network_requests(SPANS, version="1")} == {"hoff,hinton"}
    alone = network_requests(changed(SPANS, hosts=()), version="1")
    assert not any("gpuprov.hosts" in request.labels for request in alone)
