from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.room import refuse_host_conflicts
from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.drivers.networks import NetworkRequest
from gpuprov.host.links import Link

if TYPE_CHECKING:
    from tests.fakes.world import World

NAT = NetworkRequest(name="gpbr0", labels={}, address="10.0.3.1/24")
PRIVATE = NetworkRequest(name="gpbr1", labels={})


@pytest.mark.parametrize(
    ("interface", "network", "taken"),
    [
        ("lxcbr0", "10.0.3.0/24", True),
        ("tun0", "10.0.3.128/25", True),
        ("docker0", "10.0.5.0/24", True),
        ("eth0", "192.168.1.0/24", False),
        ("gpbr0", "10.0.3.0/24", False),
    ],
)
def test_only_a_foreign_use_of_the_subnets_is_refused(world: World, interface: str, network: str, taken: bool) -> None:
    world.host.network.append(Link(interface=interface, network=IPv4Network(network)))
    if taken:
        with pytest.raises(UsageError) as caught:
            refuse_host_conflicts(world.driver, world.host, world.spec(), networks=(PRIVATE,), nodes=0)
        assert interface in caught.value.evidence
    else:
        refuse_host_conflicts(world.driver, world.host, world.spec(), networks=(PRIVATE,), nodes=0)
    refuse_host_conflicts(world.driver, world.host, world.spec(), networks=(), nodes=0)


def test_a_bridge_to_be_made_that_another_engine_has_is_refused(world: World) -> None:
    """The engine that is asked does not know the other one's network of the same name."""
    world.host.network.append(Link(interface="gpbr0", network=IPv4Network("10.0.3.0/24")))
    with pytest.raises(UsageError, match=r"10\.0\.3\.0/24 is in use"):
        refuse_host_conflicts(world.driver, world.host, world.spec(), networks=(NAT, PRIVATE), nodes=0)


@pytest.mark.parametrize(("free_mib", "nodes", "enough"), [(None, 99, True), (256, 4, True), (255, 4, False)])
def test_room_for_the_nodes(world: World, free_mib: int | None, nodes: int, enough: bool) -> None:
    world.engine.free_bytes = free_mib << 20 if free_mib else None
    if enough:
        refuse_host_conflicts(world.driver, world.host, world.spec(), networks=(), nodes=nodes)
    else:
        with pytest.raises(HostNotReady, match="4 nodes"):
            refuse_host_conflicts(world.driver, world.host, world.spec(), networks=(), nodes=nodes)
