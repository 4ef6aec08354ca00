"""What the host itself already uses that a plan must not take: subnets, and the last of its storage."""

from __future__ import annotations

import json
from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.execution import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.drivers.base import Driver
    from gpuprov.spec.models import ClusterSpec

_MIB = 1024**2
_NODE_ROOM_BYTES = 64 * _MIB  # a copy-on-write clone with its logs and spool
_BUDGET_S = 10.0


def refuse_host_conflicts(driver: Driver, spec: ClusterSpec, *, networks: bool, nodes: int) -> None:
    """Refuse a plan that clashes with the host; nothing has been changed yet.

    Args:
        networks: Whether a network is to be made.
        nodes: How many nodes are to be made.

    Raises:
        UsageError: A subnet of a network to be made is in use on the host.
        HostNotReady: Too little room for the nodes to be made.
    """
    if networks:
        addresses = json.loads(run(["ip", "-j", "-4", "addr", "show"], timeout_s=_BUDGET_S).stdout or "[]")
        routes = json.loads(run(["ip", "-j", "-4", "route", "show"], timeout_s=_BUDGET_S).stdout or "[]")
        bridges = {spec.network.bridge, spec.network.private_bridge}
        used = find_used_subnets(addresses, routes, without=bridges)
        for subnet in (spec.network.subnet, spec.network.private_subnet):
            refuse_clash(IPv4Network(subnet), used)
    if nodes:
        free = driver.facts().free_bytes
        needed = nodes * _NODE_ROOM_BYTES
        if free is not None and free < needed:
            raise HostNotReady(
                f"too little room in the engine's storage for {nodes} nodes",
                evidence=f"{free // _MIB} MiB free, {needed // _MIB} MiB needed",
                fix="make room: gpuprov image list, gpuprov image rm NAME; or fewer nodes",
            )


def find_used_subnets(
    addresses: Iterable[Mapping[str, object]], routes: Iterable[Mapping[str, object]], *, without: set[str]
) -> dict[IPv4Network, str]:
    """The subnets of the host's interfaces and routes, from `ip -j addr` and `ip -j route`, each with its holder."""
    used: dict[IPv4Network, str] = {}
    for link in addresses:
        if link.get("ifname") in without:
            continue
        for info in link.get("addr_info") or ():  # type: ignore[attr-defined]
            if info.get("family") == "inet":
                network = IPv4Interface(f"{info['local']}/{info['prefixlen']}").network
                used[network] = f"interface {link['ifname']} has {info['local']}/{info['prefixlen']}"
    for route in routes:
        destination = str(route.get("dst", "default"))
        if destination != "default" and route.get("dev") not in without:
            used.setdefault(IPv4Network(destination), f"route {destination} dev {route.get('dev')}")
    return used


def refuse_clash(subnet: IPv4Network, used: Mapping[IPv4Network, str]) -> None:
    """Refuse a subnet that overlaps one in use.

    Raises:
        UsageError: It does.
    """
    for other, holder in used.items():
        if subnet.overlaps(other):
            raise UsageError(
                f"the subnet {subnet} is in use on this host",
                evidence=holder,
                fix="set other subnets in the spec: network.subnet, network.private_subnet (docs/spec.md)",
            )
