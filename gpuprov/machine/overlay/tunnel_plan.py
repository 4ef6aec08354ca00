"""One host's end of the encrypted links between hosts as it is to be, and what it lacks: pure functions.

Each host has one WireGuard device for a cluster, with every other host as a peer. The VXLAN runs inside it: its
addresses are those of the tunnel, and only WireGuard's packets are on the network between the hosts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady, NotOurs, UsageError
from gpuprov.machine.overlay.links import alias_of, step
from gpuprov.spec.overlay import TUNNEL_KEY, tunnel_device, tunnel_port

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from pathlib import Path

    from gpuprov.machine.links import Link
    from gpuprov.machine.overlay.links import OverlayLink, Step

TUNNEL_PREFIX: Final = 24  # so many bits of a tunnel's address are the cluster's
HEARD_S: Final = 180.0  # WireGuard makes no key that lasts longer
_KINDS: Final = ("wireguard", "tun")  # of the kernel's devices, and of those of wireguard-go
_KEEPALIVE_S: Final = 25  # less than firewalls remember
_NONE: Final = "(none)"
TOLD: Final = ("public-key", "listen-port", "endpoints", "allowed-ips", "latest-handshakes")


@dataclass(frozen=True, kw_only=True)
class TunnelPeer:
    """Another host.

    Attributes:
        key: Its public key.
        address: Its address in the tunnel.
        reached_at: Its address on the network between the hosts.
    """

    key: str
    address: str
    reached_at: str


@dataclass(frozen=True, kw_only=True)
class TunnelRequest:
    """A host's end of the encrypted links of a cluster.

    Attributes:
        key: Its public key.
        address: Its address in the tunnel.
        reached_at: Its own address on the network between the hosts.
        vni: Number of the VXLAN that runs in it, and `vxlan_port` its UDP port.
        mtu: Of what passes through the tunnel.
    """

    cluster: str
    vni: int
    vxlan_port: int
    key: str
    address: str
    reached_at: str
    peers: tuple[TunnelPeer, ...]
    mtu: int

    @property
    def device(self) -> str:
        """Name of the WireGuard device."""
        return tunnel_device(self.vni)

    @property
    def port(self) -> int:
        """UDP port of WireGuard, on all hosts."""
        return tunnel_port(self.vni)

    @property
    def interface(self) -> IPv4Interface:
        """The address with the network of all hosts' ends."""
        return IPv4Interface(f"{self.address}/{TUNNEL_PREFIX}")


@dataclass(frozen=True, kw_only=True)
class SeenPeer:
    """A peer as the device has it.

    Attributes:
        endpoint: Address and port to which it is sent now: WireGuard follows a peer that sends from elsewhere.
        allowed: What may come from it.
        heard_at: Seconds since 1970 at the last handshake; 0 for never.
    """

    endpoint: str = ""
    allowed: str = ""
    heard_at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SeenTunnel:
    """A device as it is: its public key, UDP port, addresses and peers."""

    key: str = ""
    port: int = 0
    addresses: tuple[str, ...] = ()
    peers: Mapping[str, SeenPeer] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TunnelMeans:
    """What this host makes a device with.

    Attributes:
        in_kernel: Whether the kernel has WireGuard; else wireguard-go serves the device.
        key_file: Its private key.
    """

    in_kernel: bool
    key_file: Path

    def create(self, device: str) -> tuple[str, ...]:
        """The command that makes a device."""
        return ("ip link add name", device, "type wireguard") if self.in_kernel else ("wireguard-go", device)


def parse_tunnel(said: Mapping[str, str], addresses: Iterable[str]) -> SeenTunnel:
    """A device, from what `wg show DEVICE WHAT` says of each WHAT."""
    columns = {what: dict(map(_row, said[what].splitlines())) for what in TOLD[2:]}
    peers = {
        key: SeenPeer(
            endpoint="" if endpoint == _NONE else endpoint,
            allowed=columns["allowed-ips"].get(key, ""),
            heard_at=float(columns["latest-handshakes"].get(key) or 0),
        )
        for key, endpoint in columns["endpoints"].items()
    }
    key = said["public-key"].strip()
    port = said["listen-port"].strip()
    return SeenTunnel(key="" if key == _NONE else key, port=int(port or 0), addresses=tuple(addresses), peers=peers)


def _row(line: str) -> tuple[str, str]:
    key, _, value = line.partition("\t")
    return key, value.strip()


def plan_tunnel(
    request: TunnelRequest,
    links: Mapping[str, OverlayLink],
    seen: SeenTunnel | None,
    means: TunnelMeans,
    *,
    now: float,
) -> tuple[Step, ...]:
    """What a host's end lacks.

    Args:
        request: As it is to be.
        links: All links of the host.
        seen: The device; None where there is none, or where it does not answer, as when its wireguard-go hangs.
        means: What it is made with.
        now: Seconds since 1970.

    Raises:
        NotOurs: Something else has the device's name.
    """
    name = request.device
    _refuse_foreign(request, links.get(name))
    found = links.get(name) if seen is not None else None
    steps = [
        step(f"remove link {link.name}", "ip link del dev", link.name)
        for link in find_tunnels(request.cluster, links)
        if link.name != name
    ]
    words = f"create link {name} (WireGuard, UDP port {request.port}, MTU {request.mtu})"
    if found is None or seen is None:
        if name in links:
            steps.append(step(f"remove link {name}, which does not answer", "ip link del dev", name))
        steps.append(step(words, *means.create(name)))
        found, seen = None, SeenTunnel()
    if found is None or found.alias != alias_of(request.cluster):
        steps.append(step(words, "ip link set dev", name, "alias", alias_of(request.cluster)))
        steps.append(step(words, "ip link set dev", name, "addrgenmode none", optional=True))  # no IPv6 here
    if (seen.key, seen.port) != (request.key, request.port):
        keyed = words if found is None else f"set key and UDP port {request.port} of {name}"
        steps.append(step(keyed, "wg set", name, "listen-port", request.port, "private-key", means.key_file))
    steps += _plan_peers(request, seen, now)
    steps += _plan_address(request, seen, words if found is None else f"set address {request.address} of {name}")
    if found is None or found.mtu != request.mtu:
        resized = words if found is None else f"set the MTU of {name} to {request.mtu}"
        steps.append(step(resized, "ip link set dev", name, "mtu", request.mtu))
    if found is None or not found.up:
        taken = f"ss -lunp sport = :{request.port}; if that port is in use, set another network.overlay.vni in the spec"
        steps.append(step(words if found is None else f"bring up {name}", "ip link set dev", name, "up", fix=taken))
    return tuple(steps)


def _refuse_foreign(request: TunnelRequest, link: OverlayLink | None) -> None:
    if link is None or link.alias == alias_of(request.cluster):
        return
    half_made = is_tunnel(link) and not link.alias and not link.up  # by a run that was killed
    if not half_made:
        raise NotOurs(
            f"the host has a link {link.name} that does not belong to the overlay of cluster {request.cluster}",
            evidence=f"it is a {link.kind or 'device'} with the alias {link.alias!r}",
            fix=f"set another network.overlay.vni in the spec; about that link: ip -d link show dev {link.name}",
        )


def _plan_peers(request: TunnelRequest, seen: SeenTunnel, now: float) -> list[Step]:
    name, wanted = request.device, {peer.key: peer for peer in request.peers}
    gone = [
        step(f"remove a peer of {name}", "wg set", name, "peer", key, "remove")
        for key in seen.peers
        if key not in wanted
    ]
    new = [
        step(
            f"reach host {peer.reached_at} by {name}",
            *("wg set", name, "peer", key, "endpoint", f"{peer.reached_at}:{request.port}"),
            *("persistent-keepalive", _KEEPALIVE_S, "allowed-ips", f"{peer.address}/32"),
        )
        for key, peer in sorted(wanted.items(), key=lambda item: IPv4Address(item[1].address))
        if not _is_reached(peer, seen.peers.get(key), request.port, now)
    ]
    return [*gone, *new]


def _is_reached(peer: TunnelPeer, seen: SeenPeer | None, port: int, now: float) -> bool:
    if seen is None or seen.allowed != f"{peer.address}/32":
        return False
    return seen.endpoint == f"{peer.reached_at}:{port}" or now - seen.heard_at < HEARD_S


def _plan_address(request: TunnelRequest, seen: SeenTunnel, words: str) -> list[Step]:
    wanted, at = str(request.interface), ("dev", request.device)
    steps = [step(words, "ip address del", old, *at) for old in seen.addresses if old != wanted]
    return steps if wanted in seen.addresses else [*steps, step(words, "ip address add", wanted, *at)]


def refuse_taken_range(request: TunnelRequest, links: Iterable[Link], *, own: Container[str]) -> None:
    """Refuse addresses that the host reaches elsewhere than by the cluster's `own` links.

    Raises:
        UsageError: The link that has them is named.
    """
    network = request.interface.network
    for link in links:
        if link.interface not in own and link.network.overlaps(network):
            raise UsageError(
                f"the addresses {network} of the overlay of cluster {request.cluster} are in use on this host",
                evidence=f"{link.address or link.network} on {link.interface}",
                fix="set another network.overlay.vni in the spec: these addresses follow from it",
            )


def is_tunnel(link: OverlayLink | None) -> bool:
    """Whether a link is one that WireGuard makes."""
    return link is not None and link.kind in _KINDS


def find_tunnels(cluster: str, links: Mapping[str, OverlayLink]) -> Sequence[OverlayLink]:
    """The devices that the host has for a cluster."""
    return [link for link in links.values() if link.alias == alias_of(cluster) and is_tunnel(link)]


def check_key(text: str, *, source: str) -> str:
    """A public key, as `wg pubkey` says it.

    Raises:
        HostNotReady: It is none.
    """
    if not TUNNEL_KEY.fullmatch(text):
        raise HostNotReady(f"{source} is not a WireGuard key", evidence=ascii(text[:60]), fix=f"remove {source}")
    return text


def tunnel_network(address: str) -> IPv4Network:
    """The network of all hosts' ends, from one of them."""
    return IPv4Interface(f"{address}/{TUNNEL_PREFIX}").network
