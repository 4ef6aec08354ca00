"""The ends of the encrypted links between hosts, as all hosts know them: pure functions."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.machine.overlay.tunnel_plan import TUNNEL_PREFIX, TunnelPeer, TunnelRequest, tunnel_network
from gpuprov.shapes.whole import TunnelEnd
from gpuprov.spec.overlay import VXLAN_BYTES, vni_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpuprov.machine.links import Link
    from gpuprov.shapes.cluster_spec import ClusterSpec

_BLOCKS: Final = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_RANGES: Final = sum(2 ** (TUNNEL_PREFIX - block.prefixlen) for block in _BLOCKS)
_STRIDE: Final = 40_499  # has no divisor in common with _RANGES, so that every range comes up


def agree_tunnels(
    spec: ClusterSpec, known: Sequence[TunnelEnd], told: Mapping[str, str], links: Iterable[Link]
) -> tuple[TunnelEnd, ...]:
    """The ends of all hosts of the spec; none where the overlay is not encrypted.

    Args:
        known: The ends as they were: an address stays that of its host.
        told: The public key that each host that answers has, empty where it has none.
        links: What the hosts have already.

    Raises:
        UsageError: There are more hosts than addresses, no range is free, or two hosts have one key.
    """
    if spec.network.overlay.encryption != "wireguard":
        return ()
    names = [host.name for host in spec.hosts]
    held = {end.host: end for end in known if end.host in names}
    network = tunnel_network(known[0].address) if known else _free_range(spec, links)
    taken = {end.address for end in held.values()}
    free = (address for address in map(str, network.hosts()) if address not in taken)
    ends = []
    for name in names:
        old = held.get(name)
        address = old.address if old else next(free, "")
        if not address:
            raise UsageError(
                f"the encrypted overlay of cluster {spec.name} has no addresses for {len(names)} hosts",
                evidence=f"{network} has {network.num_addresses - 2}",
                fix="split them into two clusters, or set network.overlay.encryption to none",
            )
        ends.append(TunnelEnd(host=name, address=address, key=told.get(name, old.key if old else "")))
    refuse_same_keys(spec, ends)
    return tuple(ends)


def refuse_same_keys(spec: ClusterSpec, ends: Iterable[TunnelEnd]) -> None:
    """Refuse hosts of which one is a copy of another.

    Raises:
        UsageError: Two are named.
    """
    owners: dict[str, str] = {}
    for end in ends:
        other = owners.setdefault(end.key, end.host)
        if end.key and other != end.host:
            raise UsageError(
                f"{other} and {end.host} have the same key for the encrypted overlay of cluster {spec.name}",
                evidence="one of them seems to be a copy of the other machine",
                fix=f"on one of them: sudo rm /var/lib/gpuprov/wireguard/{spec.name}.key",
            )


def request_tunnel(
    spec: ClusterSpec, host: str, addresses: Mapping[str, str], ends: Sequence[TunnelEnd], *, mtu: int
) -> TunnelRequest | None:
    """A host's end of the encrypted links; None where the overlay is not encrypted.

    Args:
        addresses: By host, its address on the network between them.
        ends: Those of all hosts.
        mtu: Of what the nodes send.

    Raises:
        UsageError: Nobody has told the host's end.
    """
    if spec.network.overlay.encryption != "wireguard":
        return None
    mine = next((end for end in ends if end.host == host), None)
    if mine is None:
        raise UsageError(
            f"{host} has no address in the encrypted overlay of cluster {spec.name}",
            evidence=f"those that have one: {', '.join(end.host for end in ends) or 'none'}",
            fix=f"gpuprov cluster up --name {spec.name}",
        )
    peers = tuple(
        TunnelPeer(key=end.key, address=end.address, reached_at=addresses[end.host])
        for end in ends
        if end.host != host and end.key and end.host in addresses
    )
    return TunnelRequest(
        cluster=spec.name,
        vni=vni_of(spec),
        vxlan_port=spec.network.overlay.port,
        key=mine.key,
        address=mine.address,
        reached_at=addresses[host],
        peers=peers,
        mtu=mtu + VXLAN_BYTES,
    )


def _free_range(spec: ClusterSpec, links: Iterable[Link]) -> IPv4Network:
    """A range of addresses that follows from the overlay's number, or the next one that no host uses."""
    taken = [link.network for link in links]
    taken += [IPv4Network(subnet) for subnet in (spec.network.subnet, spec.network.private_subnet)]
    for network in _ranges_from(vni_of(spec)):
        if not any(network.overlaps(other) for other in taken):
            return network
    raise UsageError(
        f"no addresses are free for the encrypted overlay of cluster {spec.name}",
        evidence="the hosts already have routes to all private addresses",
        fix="set network.overlay.encryption to none, and hosts[].internal_ip to addresses of a network of their own",
    )


def _ranges_from(number: int) -> Iterator[IPv4Network]:
    for step in range(_RANGES):
        at = (number + step * _STRIDE) % _RANGES
        for block in _BLOCKS:
            size = 2 ** (TUNNEL_PREFIX - block.prefixlen)
            if at < size:
                yield IPv4Network((int(block.network_address) + at * 2 ** (32 - TUNNEL_PREFIX), TUNNEL_PREFIX))
                break
            at -= size
