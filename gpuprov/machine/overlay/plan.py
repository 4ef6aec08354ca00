"""One host's end of an overlay as it is to be, and what it lacks: pure functions.

Each host has one VXLAN device, a port of the bridge of the private network. What is for all nodes, or for one that is
not known yet, the device sends to each peer (head-end replication), and what it receives it never sends on: however
many hosts there are, there is no loop, and each frame arrives once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady, NotOurs, UsageError
from gpuprov.machine.overlay.links import OverlayLink, alias_of, step
from gpuprov.spec.overlay import overlay_bridge, overlay_device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.machine.overlay.links import Step
    from gpuprov.machine.overlay.tunnel_plan import TunnelRequest

_OURS: Final = ("vxlan", "bridge", "wireguard", "tun")  # kinds of links, in the order in which they are removed
_EVERYBODY: Final = "00:00:00:00:00:00"  # in a device's table: who gets what is for all, or for nobody known


@dataclass(frozen=True, kw_only=True)
class OverlayRequest:
    """A host's end of an overlay.

    Attributes:
        bridge: Of the private network; None where the engine has none, so that one is made.
        local: The host's own address: in the tunnel where there is one, else on the network between the hosts.
        peers: Those of the other hosts.
        mtu: Of what the nodes send, the same on all hosts.
        tunnel: The encrypted links in which it runs; None for none.
    """

    cluster: str
    vni: int
    port: int
    bridge: str | None
    local: str
    peers: tuple[str, ...]
    mtu: int
    tunnel: TunnelRequest | None = None

    @property
    def device(self) -> str:
        """Name of the VXLAN device."""
        return overlay_device(self.vni)

    @property
    def parent(self) -> str:
        """Name of the bridge."""
        return self.bridge or overlay_bridge(self.vni)


def parse_peers(text: str) -> tuple[str, ...]:
    """To whom a device sends what is for all, from `bridge -j fdb show dev DEVICE`."""
    entries = json.loads(text or "[]")
    return tuple(entry["dst"] for entry in entries if entry["mac"] == _EVERYBODY and "dst" in entry)


def plan_overlay(request: OverlayRequest, links: Mapping[str, OverlayLink], peers: Sequence[str]) -> tuple[Step, ...]:
    """What a host's end of an overlay lacks.

    Args:
        request: As it is to be.
        links: All links of the host.
        peers: To whom the device sends what is for all.

    Raises:
        UsageError: Another VXLAN has the number.
        NotOurs: Something else has the name of a link.
        HostNotReady: The bridge of the private network is missing.
    """
    _refuse_taken(request, links)
    steps = list(plan_bridge(request, links.get(request.parent)))
    found = links.get(request.device)
    if found is not None and not _fits(request, found):
        steps.append(step(f"remove overlay {found.name}, which is not as requested", "ip link del dev", found.name))
        found = None
    if found is None:
        steps += _creation(request)
        peers = ()
        found = OverlayLink(name=request.device, mtu=request.mtu)
    at = f"dev {request.device}"
    if found.mtu != request.mtu:
        steps.append(step(f"set the MTU of {request.device} to {request.mtu}", f"ip link set {at} mtu", request.mtu))
    words = f"connect overlay {request.device} to bridge {request.parent}"
    if found.master != request.parent:
        steps.append(step(words, f"ip link set {at} master", request.parent))
    if not found.up:
        steps.append(step(words, f"ip link set {at} up"))
    if not found.apart or found.master != request.parent:  # else what comes for a node goes to the silent ports too
        steps.append(step(words, f"ip link set {at} type bridge_slave isolated on", optional=True))
    for peer in sorted(set(request.peers) - set(peers), key=IPv4Address):
        steps.append(
            step(f"reach host {peer} by overlay {request.device}", f"bridge fdb append {_EVERYBODY} {at} dst", peer)
        )
    for peer in sorted(set(peers) - set(request.peers)):
        words = f"no longer reach host {peer} by overlay {request.device}"
        steps.append(step(words, f"bridge fdb del {_EVERYBODY} {at} dst", peer))
    return tuple(steps)


def plan_overlay_removal(cluster: str, links: Mapping[str, OverlayLink]) -> tuple[Step, ...]:
    """The commands that remove a cluster's links, devices before what they are on; empty where there is none."""
    ours = [link for link in links.values() if link.alias == alias_of(cluster) and link.kind in _OURS]
    ours.sort(key=lambda link: (_OURS.index(link.kind), link.name))
    return tuple(step(f"remove overlay {link.name}", "ip link del dev", link.name) for link in ours)


def find_underlay_mtu(routes: Sequence[str], links: Mapping[str, OverlayLink]) -> int | None:
    """The least MTU on the way to the peers; None where none can be told.

    Args:
        routes: What `ip -j route get PEER` said for each.
        links: All links of the host.
    """
    found = []
    for text in routes:
        for route in json.loads(text or "[]"):
            told = [metric["mtu"] for metric in route.get("metrics", []) if "mtu" in metric]
            link = links.get(route.get("dev", ""))
            found += told + ([link.mtu] if link else [])
    return min(found, default=None)


def _refuse_taken(request: OverlayRequest, links: Mapping[str, OverlayLink]) -> None:
    names = [request.device] if request.bridge else [request.device, request.parent]
    for name in names:
        link = links.get(name)
        if link is not None and link.alias != alias_of(request.cluster) and not _is_half_made(link):
            raise NotOurs(
                f"the host has a link {name} that is not the overlay of cluster {request.cluster}",
                evidence=f"it is a {link.kind or 'device'} with the alias {link.alias!r}",
                fix=f"set another network.overlay.vni in the spec; about that link: ip -d link show dev {name}",
            )
    for link in links.values():
        if (
            link.kind == "vxlan"
            and link.vni == request.vni
            and link.name != request.device
            and link.port == request.port
        ):
            raise UsageError(
                f"the number {request.vni} of the overlay of cluster {request.cluster} is in use on this host",
                evidence=f"by the VXLAN device {link.name}",
                fix="set another number in the spec: network.overlay.vni",
            )


def _is_half_made(link: OverlayLink) -> bool:
    """Whether a run that was killed left it: the alias is the next thing that a new link gets."""
    return link.kind in ("vxlan", "bridge") and not link.alias and not link.up and not link.master


def _fits(request: OverlayRequest, link: OverlayLink) -> bool:
    """Whether a device has what cannot be changed."""
    wanted = (alias_of(request.cluster), request.vni, request.port, request.local)
    return (link.alias, link.vni, link.port, link.local) == wanted


def plan_bridge(request: OverlayRequest, found: OverlayLink | None) -> list[Step]:
    """What the bridge of the private network lacks.

    Raises:
        HostNotReady: It is the engine's, and missing.
    """
    name, steps = request.parent, []
    if found is None and request.bridge:
        raise HostNotReady(
            f"the private network of cluster {request.cluster} has no bridge on this host",
            evidence=f"there is no link {name}",
            fix=f"gpuprov cluster up --name {request.cluster}",
        )
    words = f"create bridge {name}"
    if found is None:
        steps.append(step(words, "ip link add name", name, "type", "bridge"))
    if not request.bridge and (found is None or found.alias != alias_of(request.cluster)):
        steps.append(step(words, "ip link set dev", name, "alias", alias_of(request.cluster)))
        steps.append(step(words, "ip link set dev", name, "addrgenmode", "none", optional=True))
    if found is None or found.mtu != request.mtu:
        steps.append(step(f"set the MTU of {name} to {request.mtu}", "ip link set dev", name, "mtu", request.mtu))
    if found is None or not found.up:
        steps.append(step(f"bring up {name}", "ip link set dev", name, "up"))
    return steps


def _creation(request: OverlayRequest) -> list[Step]:
    name, words = request.device, f"create overlay {request.device} (VXLAN {request.vni}, MTU {request.mtu})"
    vxlan = f"type vxlan id {request.vni} dstport {request.port} local {request.local} learning"
    return [
        step(words, "ip link add name", name, f"mtu {request.mtu} {vxlan}"),
        step(words, "ip link set dev", name, "alias", alias_of(request.cluster)),
        step(words, "ip link set dev", name, "addrgenmode", "none", optional=True),  # no IPv6 in this kernel
    ]
