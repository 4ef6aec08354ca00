from __future__ import annotations

import signal
import threading
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from gpuprov.cluster.network_plan import NetworkPlan, attach, plan_networks
from gpuprov.cluster.networks import networks_created, record_labels
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.rollback import AGAIN, Rollback
from gpuprov.drivers.base import LABEL_HOST_PORTS, LABEL_SPEC
from gpuprov.lifecycle.cluster_up import preview_changes
from gpuprov.lifecycle.start_stop import start_nodes
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.shapes.node import Attachment
from tests.fakes.driver import FakeDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.outcome import Outcome
    from gpuprov.drivers.base import Driver, NodeRequest
    from gpuprov.drivers.networks import NetworkRequest
    from tests.fakes.world import World


def planned(world: World) -> NetworkPlan:
    return plan_networks(world.spec(), observe_cluster(world.driver, "lab"), version="1")


def create(driver: Driver, world: World, requests: tuple[NetworkRequest, ...]) -> None:
    with (
        Rollback(world.reporter, left_over=AGAIN) as rollback,
        networks_created(driver, NetworkPlan(create=requests), rollback, reporter=world.reporter),
    ):
        pass


def test_only_what_is_missing_is_planned(world: World) -> None:
    plan = planned(world)
    assert [(request.name, request.address) for request in plan.create] == [("gpbr0", "10.0.3.1/24"), ("gpbr1", None)]
    create(world.driver, world, plan.create[:1])
    assert planned(world) == NetworkPlan(create=plan.create[1:])


@pytest.mark.parametrize(("step", "subject"), [("create_network:done", "gpbr1"), ("complete_network", "gpbr0")])
def test_networks_are_taken_back_when_the_run_fails(world: World, step: str, subject: str) -> None:
    requests = planned(world).create
    world.engine.faults.raise_at(EngineError("broke", evidence="e", fix="f"), step, subject=subject)
    with pytest.raises(EngineError, match="broke"):
        create(world.driver, world, requests)
    assert world.engine.networks == {}


def test_nodes_are_made_while_a_network_is_completed(world: World) -> None:
    """The name server of LXD's bridge takes half a second to be counted as up: here it waits for the first node."""
    created = threading.Event()
    complete, make_node = FakeDriver.complete_network, FakeDriver.create_node

    def completed_late(driver: FakeDriver, request: NetworkRequest) -> None:
        assert created.wait(10)
        complete(driver, request)

    def make(driver: FakeDriver, request: NodeRequest) -> None:
        make_node(driver, request)
        if request.name == "c000":
            created.set()

    with patch.object(FakeDriver, "complete_network", completed_late), patch.object(FakeDriver, "create_node", make):
        world.up(1)
    assert world.engine.networks["gpbr0"].address == "10.0.3.1/24"


@pytest.mark.parametrize("verb", ["cluster up", "create-node"])
def test_a_network_that_a_killed_run_left_without_its_address_is_completed(world: World, verb: str) -> None:
    requests = planned(world).create
    for request in requests:
        world.driver.create_network(request)
    assert planned(world) == NetworkPlan(complete=requests[:1])
    if verb == "cluster up":
        told = preview_changes(world.driver, world.spec(1), world.host, reporter=world.reporter)
        assert told[0] == "complete network gpbr0 10.0.3.1/24"
    VERBS[verb](world)
    assert world.engine.networks["gpbr0"].address == "10.0.3.1/24"
    assert planned(world) == NetworkPlan()


def test_a_network_is_not_completed_with_a_subnet_that_it_was_not_made_for(world: World) -> None:
    for request in planned(world).create:
        world.driver.create_network(request)
    other = changed(world.spec(), network=changed(world.spec().network, subnet="10.0.9.0/24"))
    with pytest.raises(UsageError, match="differs from the spec"):
        plan_networks(other, observe_cluster(world.driver, "lab"), version="1")


def test_new_networks_are_isolated_and_a_host_that_cannot_is_told(world: World) -> None:
    requests = planned(world).create
    driver = world.driver
    with patch.object(driver, "isolate_network", lambda _name: "nft is missing"):
        create(driver, world, requests[:1])
    (line,) = (line for line in world.reporter.lines if line.startswith("warn"))
    for words in ("can reach those on gpbr0", "and these every service of the host: nft is missing"):
        assert words in line
    create(world.driver, world, requests[1:])
    assert {name: network.isolated for name, network in world.engine.networks.items()} == {
        "gpbr0": False,
        "gpbr1": True,
    }


VERBS: dict[str, Callable[[World], Outcome]] = {
    "cluster up": lambda world: world.up(1),
    "create-node": lambda world: world.create("more"),
    "start": lambda world: start_nodes(world.driver, ["c000"], world.host, reporter=world.reporter),
}


@pytest.mark.parametrize("verb", VERBS)
def test_what_a_reboot_took_is_told_and_restored_once(world: World, verb: str) -> None:
    world.begin_with(1)
    assert preview_changes(world.driver, world.spec(1), world.host, reporter=world.reporter) == ()
    world.forget_isolation()
    both = {"gpbr0", "gpbr1"}
    told = preview_changes(world.driver, world.spec(1), world.host, reporter=world.reporter)
    assert told == tuple(f"isolate network {name} from other clusters" for name in sorted(both))
    said = VERBS[verb](world).changed
    assert {line.split()[2] for line in said if "isolate" in line} == both
    assert {name for name, network in world.engine.networks.items() if network.isolated} == both
    assert VERBS[verb](world).unchanged


def test_an_earlier_version_s_cluster_and_other_ports_of_the_host_are_told_and_mended(world: World) -> None:
    world.begin_with(1)
    networks = world.engine.networks
    networks.update({name: changed(network, guarded=False) for name, network in networks.items()})

    def spec_with(*ports: int | str) -> ClusterSpec:
        return changed(world.spec(1), network=changed(world.spec(1).network, host_ports=ports))

    def told(*ports: int | str) -> tuple[str, ...]:
        return preview_changes(world.driver, spec_with(*ports), world.host, reporter=world.reporter)

    lacking = tuple(f"isolate the host from nodes on network {name}" for name in ("gpbr0", "gpbr1"))
    ports = "open ports of the host to nodes on network gpbr0: 53/udp,8080/tcp (until now none)"
    assert told() == lacking
    assert told(8080, "53/udp") == (*lacking, ports)
    assert world.up(spec=spec_with(8080, "53/udp")).changed == (*lacking, ports)
    assert all(network.guarded for network in networks.values())
    assert {network.labels.get(LABEL_HOST_PORTS) for network in networks.values()} == {"53/udp,8080/tcp", None}
    assert told("8080/tcp", "53/udp") == ()
    assert told(8080) == ("open ports of the host to nodes on network gpbr0: 8080/tcp (until now 53/udp,8080/tcp)",)
    world.up(spec=spec_with())
    assert {network.labels.get(LABEL_HOST_PORTS, "") for network in networks.values()} == {""}


def test_an_interrupt_waits_for_the_network_that_the_engine_still_makes(world: World) -> None:
    """The engine goes on though the sender of the request is gone: undone at once, the network came afterwards."""
    requests = planned(world).create
    driver = world.driver
    make = driver.create_network
    asked: list[threading.Thread] = []

    def make_late(request: NetworkRequest) -> None:
        def work() -> None:
            threading.Event().wait(0.05)
            make(request)

        thread = threading.Thread(target=work)
        asked.append(thread)
        thread.start()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        thread.join()

    with patch.object(driver, "create_network", make_late), pytest.raises(KeyboardInterrupt):
        create(driver, world, requests)
    for thread in asked:
        thread.join()
    assert world.engine.networks == {}


def test_a_spec_is_recorded_when_it_differs(world: World) -> None:
    world.begin_with(1)
    state = observe_cluster(world.driver, "lab")
    world.engine.faults.clear()
    record_labels(world.driver, world.spec(1), {LABEL_SPEC: world.engine.networks["gpbr0"].labels[LABEL_SPEC]}, state)
    assert world.steps() == []
    record_labels(world.driver, world.spec(1), {LABEL_SPEC: "other"}, state)
    assert world.engine.networks["gpbr0"].labels[LABEL_SPEC] == "other"


def test_two_interfaces_with_macs_that_stay() -> None:
    spec = ClusterSpec()
    public, private = IPv4Interface("10.0.3.2/24"), IPv4Interface("10.0.5.1/24")
    assert [nic.interface for nic in attach(spec, "c000", {"eth1": private})] == ["eth1"]
    eth0, eth1 = attach(spec, "c000", {"eth0": public, "eth1": private})
    assert eth0 == Attachment(
        network="gpbr0", interface="eth0", kind="veth", address="10.0.3.2/24", mac=eth0.mac, gateway="10.0.3.1"
    )
    assert eth1 == Attachment(network="gpbr1", interface="eth1", kind="macvlan", address="10.0.5.1/24", mac=eth1.mac)
    assert eth0.mac != eth1.mac
    assert attach(spec, "c000", {"eth0": public, "eth1": private}) == (eth0, eth1)
