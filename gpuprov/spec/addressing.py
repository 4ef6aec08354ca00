"""Who has which name, address and MAC: all of it computed, so that it survives every restart."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, IPv4Network, NetmaskValueError
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import node_name
from gpuprov.shapes.limits import NODES_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.cluster_spec import NetworkSpec

__all__ = [
    "capacity",
    "free_number",
    "gateway",
    "mac",
    "node_name",
    "number_of_address",
    "number_of_name",
    "parse_address",
    "private_address",
    "public_address",
]

_PUBLIC_OFFSET = 2  # .0 is the network, .1 the gateway
_PRIVATE_OFFSET = 1  # the private network has no gateway


def number_of_name(name: str, *, prefix: str) -> int | None:
    """The number in a name that `node_name` gives, or None: with prefix `c`, `c003` is 3 and `gpu1` is None."""
    match = re.fullmatch(re.escape(prefix) + r"([0-9]{3})", name)
    return int(match[1]) if match and int(match[1]) < NODES_MAX else None


def capacity(network: IPv4Network) -> int:
    """How many nodes a subnet has addresses for: all but network, gateway and broadcast."""
    return min(NODES_MAX, max(0, network.num_addresses - 3))


def gateway(network: NetworkSpec) -> IPv4Interface:
    """The host's own address on the NAT bridge; `str()` is `10.0.3.1/24` and `.ip` is `10.0.3.1`."""
    return _nth(network.subnet, 1)


def public_address(number: int, network: NetworkSpec) -> IPv4Interface:
    """Address of node `number` on eth0, `10.0.3.(N+2)/24`. Raises UsageError where the subnet has no such address."""
    return _nth(network.subnet, number + _PUBLIC_OFFSET)


def private_address(number: int, network: NetworkSpec) -> IPv4Interface:
    """Address of node `number` on eth1, `10.0.5.(N+1)/24`. Raises UsageError where the subnet has no such address."""
    return _nth(network.private_subnet, number + _PRIVATE_OFFSET)


def number_of_address(address: IPv4Interface) -> int:
    """The node number to which a public address belongs: the opposite of `public_address`."""
    return int(address.ip) - int(address.network.network_address) - _PUBLIC_OFFSET


def free_number(network: NetworkSpec, taken: Mapping[str, str], *, host: int = 0, hosts: int = 1) -> int:
    """The highest number neither of whose two addresses is `taken`, so that numbered nodes find theirs free.

    The very last number is left to the node in which images are built. Of several hosts each first takes numbers that
    no other one does, for they may look for one at the same time.

    Args:
        taken: Addresses in use, each with its holder.
        host: The place of the node's host among all `hosts`.
        hosts: How many there are.

    Raises:
        UsageError: Every address is taken.
    """
    numbers = range(capacity(IPv4Network(network.subnet)) - 1)
    for number in sorted(numbers, key=lambda number: (number % hosts == host, number), reverse=True):
        if {str(public_address(number, network).ip), str(private_address(number, network).ip)}.isdisjoint(taken):
            return number
    raise UsageError(
        f"no address is free in {network.subnet}",
        evidence=f"all {len(numbers)} node addresses are taken; one is the gateway's, one is reserved for image builds",
        fix="list the nodes: gpuprov list; free an address: gpuprov rm NODE",
    )


def mac(cluster: str, node: str, interface: str) -> str:
    """A MAC address that is always the same for one interface of one node.

    Names that end in digits put their number into the last byte, so that the nodes of a cluster never share one.
    """
    digits = re.search(r"\d{1,3}$", node, re.ASCII)
    family = f"{node[: digits.start()]}{len(digits[0])}" if digits else node  # c1 is not c001
    seed = hashlib.sha256(f"{cluster}\x00{family}\x00{interface}".encode()).digest()
    last = int(digits[0]) % 256 if digits else seed[2]
    return f"00:16:3e:{seed[0]:02x}:{seed[1]:02x}:{last:02x}"


def parse_address(text: str, network: NetworkSpec, taken: Mapping[str, str]) -> IPv4Interface:
    """Read the address that a user asks for, `10.0.3.6` or `10.0.3.6/24`.

    Args:
        text: What was typed.
        network: The cluster's networks.
        taken: Addresses in use (without prefix length), each with its holder.

    Raises:
        UsageError: It is no address, not in the subnet, the subnet's own, the gateway's, or taken.
    """
    subnet, host = IPv4Network(network.subnet), gateway(network)
    fix = f"list the addresses in use: gpuprov list; choose one from {host.ip + 1} to {subnet.broadcast_address - 1}"
    try:
        address = IPv4Address(text.partition("/")[0])
        length = IPv4Interface(text).network.prefixlen if "/" in text else subnet.prefixlen
    except (AddressValueError, NetmaskValueError) as error:
        raise UsageError(f"{text[:80]!r} is not an IPv4 address", evidence=str(error), fix=fix) from error
    refused = None
    if address not in subnet or length != subnet.prefixlen:
        refused = f"the subnet of {network.bridge} is {subnet}"
    elif address == subnet.network_address:
        refused = f"it is the network address of {subnet}"
    elif address == subnet.broadcast_address:
        refused = f"it is the broadcast address of {subnet}"
    elif address == host.ip:
        refused = f"it is the gateway, the host's address on {network.bridge}"
    elif str(address) in taken:
        refused = f"it is in use by {taken[str(address)]}"
    if refused:
        raise UsageError(f"a node cannot have the address {text[:80]}", evidence=refused, fix=fix)
    return IPv4Interface((address, subnet.prefixlen))


@lru_cache(maxsize=4096)
def _nth(subnet: str, index: int) -> IPv4Interface:
    network = IPv4Network(subnet)
    if not 0 < index < network.num_addresses - 1:
        raise UsageError(
            f"the subnet {subnet} has no address for host number {index}",
            evidence=f"it has {network.num_addresses - 2} addresses",
            fix="use a larger subnet: network.subnet and network.private_subnet in the spec",
        )
    return IPv4Interface((network[index], network.prefixlen))
