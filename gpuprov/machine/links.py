"""The IPv4 networks that this machine already reaches, and what answers on its bridges."""

from __future__ import annotations

import json
import re
import socket
import time
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING

from gpuprov.core.errors import GpuprovError
from gpuprov.core.execution import run

if TYPE_CHECKING:
    from pathlib import Path

COMMAND_TIMEOUT_S = 10.0
_ANSWER_S = 0.4  # long enough for a neighbour on a local bridge
_DISCARD_PORT = 9
_END_OF_PAIR = re.compile(r"veth[0-9a-f]{8}")  # as LXD and Incus name both ends
_MOMENT_S = 0.3  # for which an instance that starts has both ends of its pair on the host


@dataclass(frozen=True, kw_only=True)
class Link:
    """An IPv4 network the host already reaches: by an address of its own, or by a route."""

    interface: str
    network: IPv4Network
    address: IPv4Interface | None = None


def parse_links(addresses_json: str, routes_json: str) -> tuple[Link, ...]:
    """IPv4 networks from `ip -j -4 address` and `ip -j -4 route`; the default route says nothing and is left out."""
    links = []
    for interface in json.loads(addresses_json or "[]"):
        for info in interface.get("addr_info", []):
            if info.get("family") == "inet":
                address = IPv4Interface(f"{info['local']}/{info['prefixlen']}")
                links.append(Link(interface=interface["ifname"], network=address.network, address=address))
    for route in json.loads(routes_json or "[]"):
        if route["dst"] != "default":
            network = IPv4Network(route["dst"], strict=False)
            links.append(Link(interface=route.get("dev", "no interface"), network=network))
    return tuple(links)


def find_links() -> tuple[Link, ...] | None:
    """The IPv4 networks in use, or None where `ip` is missing or fails."""
    try:
        answers = [run(["ip", "-j", "-4", what], timeout_s=COMMAND_TIMEOUT_S).stdout for what in ("address", "route")]
    except GpuprovError:
        return None
    return parse_links(*answers)


def find_loose_pairs() -> tuple[tuple[str, str], ...] | None:
    """Pairs of links in no use that only an LXD or Incus makes, and leaves where it dies while it makes them.

    Returns:
        None where `ip` is missing or fails.
    """
    argv = ["ip", "-j", "-d", "link", "show", "type", "veth"]
    try:
        found = parse_loose_pairs(run(argv, timeout_s=COMMAND_TIMEOUT_S).stdout)
        if found:
            time.sleep(_MOMENT_S)
            found &= parse_loose_pairs(run(argv, timeout_s=COMMAND_TIMEOUT_S).stdout)
    except GpuprovError:
        return None
    return tuple(sorted(found))


def parse_loose_pairs(links_json: str) -> set[tuple[str, str]]:
    """Such pairs in `ip -j -d link show type veth`: both ends are here, one is down, and no bridge has either."""
    links = {link["ifname"]: link for link in json.loads(links_json or "[]") if _END_OF_PAIR.fullmatch(link["ifname"])}
    free = {name: link for name, link in links.items() if "master" not in link}
    pairs = {(name, link["link"]) for name, link in free.items() if free.get(link.get("link"), {}).get("link") == name}
    return {pair for pair in pairs if pair[0] < pair[1] and any("UP" not in free[end]["flags"] for end in pair)}


def find_interfaces(root: Path) -> tuple[str, ...]:
    """Names of all interfaces, whether they have an address or not."""
    folder = root / "sys/class/net"
    return tuple(sorted(path.name for path in folder.iterdir())) if folder.is_dir() else ()


def answers(address: str, bridge: str) -> bool:
    """Whether something on a bridge answers at an address."""
    try:
        socket.create_connection((address, _DISCARD_PORT), timeout=_ANSWER_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:  # nobody, or a neighbour that drops what we sent but told the kernel its MAC address
        listing = run(["ip", "-j", "neigh", "show", address, "dev", bridge], timeout_s=COMMAND_TIMEOUT_S).stdout
        # a removed node stays a reachable neighbour for half a minute; the bridge forgets its port at once
        ports = run(["bridge", "-j", "fdb", "show", "br", bridge], timeout_s=COMMAND_TIMEOUT_S).stdout
        plugged = {entry["mac"] for entry in json.loads(ports or "[]")}
        return any(
            "REACHABLE" in entry["state"] and entry["lladdr"] in plugged for entry in json.loads(listing or "[]")
        )
    return True
