"""What the host itself already uses that a plan must not take: subnets, and the last of its storage."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.units import MIB
from gpuprov.host.findings import takes
from gpuprov.host.kernel_limits import refuse_few

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.drivers.base import Driver
    from gpuprov.drivers.networks import NetworkRequest
    from gpuprov.host.base import Host
    from gpuprov.host.links import Link
    from gpuprov.spec.models import ClusterSpec

_NODE_ROOM_BYTES = 64 * MIB  # a copy-on-write clone with its logs and spool


def refuse_host_conflicts(
    driver: Driver, host: Host, spec: ClusterSpec, *, networks: tuple[NetworkRequest, ...], nodes: int
) -> None:
    """Refuse a plan that clashes with the host; nothing has been changed yet.

    Args:
        driver: Tells the room that is left.
        host: Tells what it uses, and its limits.
        spec: Names the subnets.
        networks: Those to be made; the cluster's others are there and have their subnets rightly.
        nodes: How many nodes are to be made.

    Raises:
        UsageError: A subnet of a network to be made is in use on the host.
        HostNotReady: Too little room, or too low a limit of the kernel, for the nodes to be made.
    """
    if networks:
        own = {spec.network.bridge, spec.network.private_bridge} - {request.name for request in networks}
        links = [link for link in host.links() or () if link.interface not in own]
        for subnet in (spec.network.subnet, spec.network.private_subnet):
            refuse_clash(IPv4Network(subnet), links)
    if nodes:
        refuse_few(driver, host.limits(), nodes)
        free = driver.facts().free_bytes
        needed = nodes * _NODE_ROOM_BYTES
        if free is not None and free < needed:
            raise HostNotReady(
                f"not enough space in the engine's storage for {nodes} nodes",
                evidence=f"{free // MIB} MiB free, {needed // MIB} MiB needed",
                fix="free some space: gpuprov image list, gpuprov image rm NAME; or request fewer nodes",
            )


def refuse_clash(subnet: IPv4Network, links: Iterable[Link]) -> None:
    """Refuse a subnet that the host already uses.

    Raises:
        UsageError: An interface or a route has addresses of it.
    """
    for link in links:
        if takes(link, subnet):
            raise UsageError(
                f"the subnet {subnet} is in use on this host",
                evidence=f"{link.address or link.network} on {link.interface}",
                fix="set other subnets in the spec: network.subnet, network.private_subnet (docs/spec.md)",
            )
