"""The overlay that carries a cluster's private network from host to host: its number and its links' names."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpuprov.shapes.cluster_spec import ClusterSpec

VXLAN_BYTES: Final = 50  # Ethernet, IPv4, UDP and VXLAN headers around each frame
WIREGUARD_BYTES: Final = 80  # IPv6 or IPv4, UDP and WireGuard headers around each packet, and its padding
TUNNEL_KEY: Final = re.compile(r"[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=")  # 32 bytes in base64
_TUNNEL_PORTS: Final = range(51820, 52820)
_VNIS: Final = 2**24 - 1  # 0 is none
_BRIDGES: Final = "gpvb"


def vni_of(spec: ClusterSpec) -> int:
    """The spec's, else one that follows from the cluster's name."""
    if spec.network.overlay.vni is not None:
        return spec.network.overlay.vni
    return 1 + int.from_bytes(hashlib.sha256(f"gpuprov\0{spec.name}".encode()).digest()[:8], "big") % _VNIS


def overlay_device(vni: int) -> str:
    """Name of the VXLAN device."""
    return f"gpvx{vni:06x}"


def overlay_bridge(vni: int) -> str:
    """Name of the bridge that it is a port of where the engine has none for the private network."""
    return f"{_BRIDGES}{vni:06x}"


def is_overlay_bridge(name: str) -> bool:
    """Whether a link of the host has such a name."""
    return name.startswith(_BRIDGES)


def tunnel_device(vni: int) -> str:
    """Name of the WireGuard device in whose tunnel the VXLAN runs."""
    return f"gpwg{vni:06x}"


def tunnel_port(vni: int) -> int:
    """UDP port on which hosts receive WireGuard: clusters of one host differ, for a device has its port alone."""
    return _TUNNEL_PORTS[vni % len(_TUNNEL_PORTS)]


def overlay_bytes(spec: ClusterSpec) -> int:
    """By how much what passes between hosts is larger than what nodes send."""
    return VXLAN_BYTES + (WIREGUARD_BYTES if spec.network.overlay.encryption == "wireguard" else 0)


def unencrypted_warning(spec: ClusterSpec) -> str:
    """What to say of an overlay that anybody between the hosts can read; empty where there is nothing to say."""
    overlay = spec.network.overlay
    if len(spec.hosts) <= 1 or overlay.type == "none" or overlay.encryption != "none":
        return ""
    return (
        f"the private network of cluster {spec.name} is not encrypted between hosts: whoever is on the network between "
        "them can read and forge what nodes send to each other; use a network that only hosts are on: "
        "hosts[].internal_ip"
    )
