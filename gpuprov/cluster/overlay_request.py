"""What each host's end of an overlay is to be, from the spec and what the hosts say of themselves: pure functions."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import AddressValueError, IPv4Address
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.machine.overlay.plan import OverlayRequest
from gpuprov.shapes.cluster_spec import MTU_LEAST
from gpuprov.spec.overlay import overlay_bytes, vni_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.machine.overlay.tunnel_plan import TunnelRequest
    from gpuprov.shapes.cluster_spec import ClusterSpec, HostSpec

_SSH_PARTS: Final = 4  # the other end's address and port, this one's address and port


def underlay_address(host: HostSpec, ssh_connection: str) -> str:
    """A host's own address on the network between the hosts.

    Args:
        host: As the spec has it.
        ssh_connection: SSH_CONNECTION on that host: how it was reached. Aliases and jumps are left behind by then.

    Raises:
        UsageError: It was reached in a way that tells none.
    """
    if host.internal_ip is not None:
        return host.internal_ip
    parts = ssh_connection.split()
    try:
        spoken = parts[2] if len(parts) == _SSH_PARTS else ""
        local = spoken.startswith("127.")  # the controller is this host: no other one reaches it there
        return str(IPv4Address("" if local else spoken))
    except AddressValueError as error:
        raise UsageError(
            f"the address of the host {host.name} on the network between the hosts is not known",
            evidence=f"ssh reached it at {parts[2]}" if len(parts) == _SSH_PARTS else "it was not reached by ssh",
            fix=f"set internal_ip of {host.name} in hosts of the spec to its IPv4 address",
        ) from error


def agree_mtu(spec: ClusterSpec, underlays: Mapping[str, int]) -> int:
    """The MTU of eth1 on all hosts.

    Args:
        spec: The cluster.
        underlays: By host, the least MTU on its way to the others.

    Raises:
        HostNotReady: The network between the hosts is too narrow for the spec, or for any overlay.
    """
    narrowest = min(underlays, key=lambda host: underlays[host])
    headers = overlay_bytes(spec)
    most = underlays[narrowest] - headers
    wanted = spec.network.overlay.mtu or most
    if wanted > most or most < MTU_LEAST:
        raise HostNotReady(
            f"packets of {max(wanted, MTU_LEAST)} bytes do not fit into the overlay of cluster {spec.name}",
            evidence=f"the network between the hosts has MTU {underlays[narrowest]} on {narrowest}; "
            f"the overlay takes {headers} of it",
            fix=f"set network.overlay.mtu in the spec to {most} or less"
            if most >= MTU_LEAST
            else f"raise the MTU of that network to {MTU_LEAST + headers} or more",
        )
    return wanted


def request_overlay(
    spec: ClusterSpec, host: str, addresses: Mapping[str, str], *, mtu: int, has_bridge: bool
) -> OverlayRequest | None:
    """A host's end of the overlay; None where the user connects the private bridges.

    A host that is alone has one too, without peers, so that a second one changes nothing in its nodes.

    Args:
        spec: The whole cluster's.
        host: The host's name in it.
        addresses: By host, its address on the network between them; those of hosts that are unreachable as they were.
        mtu: As `agree_mtu` says.
        has_bridge: Whether the host's engine has a bridge for the private network: capability `private-bridge`.

    Raises:
        UsageError: Two hosts have one address, or the private network cannot be connected by other means.
    """
    overlay = spec.network.overlay
    if overlay.type == "none":
        if not has_bridge:
            raise UsageError(
                f"the private network of cluster {spec.name} cannot be connected by other means on {host}",
                evidence=f"network.overlay.type is none, and {spec.engine} has no bridge for it",
                fix="set network.overlay.type to vxlan",
            )
        return None
    peers = {name: address for name, address in addresses.items() if name != host}
    same = [name for name, address in peers.items() if address == addresses[host]]
    if same:
        raise UsageError(
            f"the hosts {host} and {same[0]} of cluster {spec.name} have the same address",
            evidence=addresses[host],
            fix="if they are one machine, remove one of them from hosts; else set hosts[].internal_ip of both",
        )
    return OverlayRequest(
        cluster=spec.name,
        vni=vni_of(spec),
        port=overlay.port,
        bridge=spec.network.private_bridge if has_bridge else None,
        local=addresses[host],
        peers=tuple(peers.values()),
        mtu=mtu,
    )


def encrypt(overlay: OverlayRequest, tunnel: TunnelRequest) -> OverlayRequest:
    """The same overlay inside encrypted links: its addresses are those of the tunnel."""
    peers = tuple(peer.address for peer in tunnel.peers)
    return replace(overlay, local=tunnel.address, peers=peers, tunnel=tunnel)
