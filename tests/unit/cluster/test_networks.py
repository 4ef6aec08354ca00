from __future__ import annotations

import signal
import threading
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from gpuprov.cluster.network_plan import attach, plan_networks
from gpuprov.cluster.networks import create_networks, record_spec
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError
from gpuprov.core.rollback import AGAIN, Rollback
from gpuprov.drivers.base import LABEL_SPEC
from gpuprov.drivers.networks import Attachment
from gpuprov.spec.models import ClusterSpec
from gpuprov.workflows.cluster_up import preview_changes
from gpuprov.workflows.start_stop import start_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.outcome import Outcome
    from gpuprov.drivers.networks import NetworkRequest
    from tests.fakes.world import World


def test_only_what_is_missing_is_planned(world: World) -> None:
    spec = world.spec()
    first = plan_networks(spec, observe_cluster(world.driver, "lab"), version="1")
    assert [(request.name, request.address) for request in first] == [("gpbr0", "10.0.3.1/24"), ("gpbr1", None)]
    with Rollback(world.reporter, left_over=AGAIN) as rollback:
        create_networks(world.driver, first[:1], rollback, reporter=world.reporter)
    left = plan_networks(spec, observe_cluster(world.driver, "lab"), version="1")
    assert [request.name for request in left] == ["gpbr1"]


def test_networks_are_taken_back_when_the_run_fails(world: World) -> None:
    requests = plan_networks(world.spec(), observe_cluster(world.driver, "lab"), version="1")
    world.engine.faults.raise_at(EngineError("broke", evidence="e", fix="f"), "create_network:done", subject="gpbr1")
    with pytest.raises(EngineError), Rollback(world.reporter, left_over=AGAIN) as rollback:
        create_networks(world.driver, requests, rollback, reporter=world.reporter)
    assert world.engine.networks == {}


def test_new_networks_are_isolated_and_a_host_that_cannot_is_told(world: World) -> None:
    requests = plan_networks(world.spec(), observe_cluster(world.driver, "lab"), version="1")
    driver = world.driver
    with (
        patch.object(driver, "isolate_network", lambda _name: "nft is missing"),
        Rollback(world.reporter, left_over=AGAIN) as rollback,
    ):
        create_networks(driver, requests[:1], rollback, reporter=world.reporter)
    (line,) = world.reporter.lines
    assert "warn nodes of other clusters on this host can reach those on gpbr0: nft is missing" in line
    with Rollback(world.reporter, left_over=AGAIN) as rollback:
        create_networks(driver, requests[1:], rollback, reporter=world.reporter)
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


def test_an_interrupt_waits_for_the_network_that_the_engine_still_makes(world: World) -> None:
    """The engine goes on though the sender of the request is gone: undone at once, the network came afterwards."""
    requests = plan_networks(world.spec(), observe_cluster(world.driver, "lab"), version="1")
    driver = world.driver
    make = driver.create_network
    asked: list[threading.Thread] = []

    def create(request: NetworkRequest) -> None:
        def work() -> None:
            threading.Event().wait(0.05)
            make(request)

        thread = threading.Thread(target=work)
        asked.append(thread)
        thread.start()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        thread.join()

    with (
        patch.object(driver, "create_network", create),
        pytest.raises(KeyboardInterrupt),
        Rollback(world.reporter, left_over=AGAIN) as rollback,
    ):
        create_networks(driver, requests, rollback, reporter=world.reporter)
    for thread in asked:
        thread.join()
    assert world.engine.networks == {}


def test_a_spec_is_recorded_when_it_differs(world: World) -> None:
    world.begin_with(1)
    state = observe_cluster(world.driver, "lab")
    world.engine.faults.clear()
    record_spec(world.driver, world.spec(1), world.engine.networks["gpbr0"].labels[LABEL_SPEC], state)
    assert world.steps() == []
    record_spec(world.driver, world.spec(1), "other", state)
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
