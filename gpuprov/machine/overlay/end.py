"""One host's end of an overlay: seen, made, repaired and removed with `ip` and `bridge`."""

from __future__ import annotations

import json
import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.core.execution import CommandFailed, run
from gpuprov.machine.overlay.kept_bridges import KeptBridges
from gpuprov.machine.overlay.links import alias_of, parse_overlay_links, step
from gpuprov.machine.overlay.ping import ping_whole
from gpuprov.machine.overlay.plan import (
    find_underlay_mtu,
    parse_peers,
    plan_overlay,
    plan_overlay_removal,
)
from gpuprov.machine.overlay.tunnel import TunnelKeys, preview_tunnel, refuse_other_key, show_guard
from gpuprov.machine.overlay.tunnel_guard import plan_guard_removal
from gpuprov.machine.overlay.tunnel_plan import find_tunnels

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gpuprov.core.execution import Completed
    from gpuprov.machine.overlay.links import OverlayLink, Step
    from gpuprov.machine.overlay.plan import OverlayRequest

_BUDGET_S: Final = 10.0
_SMALL: Final = 64  # bytes of a ping that passes everywhere
_WORKERS: Final = 16


def ensure_overlay(request: OverlayRequest, keys: TunnelKeys) -> tuple[str, ...]:
    """Bring this host's end of an overlay to the request; returns a line for each change, none where it is so.

    Args:
        request: As it is to be.
        keys: This host's keys of encrypted overlays.

    Raises:
        GpuprovError: The number or a name is taken, the bridge is missing, or the host refuses.
    """
    if request.tunnel:
        refuse_other_key(request.tunnel, keys)
    steps = preview_overlay(request, keys)
    _interface_of(request.tunnel.reached_at if request.tunnel else request.local)
    _carry_out(steps)
    left = preview_overlay(request, keys) if steps else ()
    if left:
        raise HostNotReady(
            f"the overlay of cluster {request.cluster} is not as requested after it was set",
            evidence=f"still to do: {'; '.join(_lines(left))}",
            fix=f"ip -d link show dev {request.device}; bridge fdb show dev {request.device}",
        )
    if not request.tunnel:
        keys.remove(request.cluster)  # of a time when it was encrypted
    return _lines(steps)


def preview_overlay(request: OverlayRequest, keys: TunnelKeys) -> tuple[Step, ...]:
    """What `ensure_overlay` would do; raises what it would refuse, and changes nothing."""
    links = look_at_links()
    tunnel: tuple[Step, ...]
    if request.tunnel:
        tunnel = preview_tunnel(request.tunnel, links, keys)
    else:
        tunnel = _plan_without_tunnel(request.cluster, links) if keys.has(request.cluster) else ()
    return (*tunnel, *plan_overlay(request, links, find_peers(request.device) if request.device in links else ()))


def _plan_without_tunnel(cluster: str, links: Mapping[str, OverlayLink]) -> tuple[Step, ...]:
    """What is left of a time when the overlay was encrypted."""
    old = find_tunnels(cluster, links)
    removed = (step(f"remove link {link.name}", "ip link del dev", link.name) for link in old)
    return (*removed, *plan_guard_removal(cluster, show_guard(cluster)))


def remove_overlay(cluster: str, keys: TunnelKeys) -> tuple[str, ...]:
    """Remove a cluster's overlay and its key from this host; returns a line for each link, none where there is none."""
    steps = plan_overlay_removal(cluster, look_at_links())
    if not keys.has(cluster):
        _carry_out(steps)
        return _lines(steps)
    steps = (*steps, *plan_guard_removal(cluster, show_guard(cluster)))
    _carry_out(steps)
    keys.remove(cluster)
    return (*_lines(steps), f"remove the key of the overlay of cluster {cluster}")


def look_at_links() -> dict[str, OverlayLink]:
    """All links of this host."""
    return parse_overlay_links(run(["ip", "-j", "-d", "link", "show"], timeout_s=_BUDGET_S).stdout)


def find_peers(device: str) -> tuple[str, ...]:
    """To whom a device sends what is for all."""
    return parse_peers(run(["bridge", "-j", "fdb", "show", "dev", device], timeout_s=_BUDGET_S).stdout)


def underlay_mtu(local: str, peers: Sequence[str]) -> int:
    """The least MTU on the way to the other hosts, as far as this one knows; of its own link where there is none.

    Raises:
        HostNotReady: A peer cannot be reached, or the host does not have the address.
    """
    interface, links = _interface_of(local), look_at_links()
    if not peers:
        return links[interface].mtu
    routes = [_route_to(peer, local) for peer in peers]
    found = find_underlay_mtu(routes, links)
    if found is None:
        raise HostNotReady(
            "cannot tell the MTU of the network between the hosts",
            evidence=f"`ip route get` names no link for {', '.join(peers)}",
            fix="set network.overlay.mtu in the spec",
        )
    return found


def look_at_overlay(
    request: OverlayRequest, hosts: Mapping[str, str], *, overhead: int, untried: Collection[str] = ()
) -> dict[str, Any]:
    """What `verify` looks at of this host's end of an overlay (verify/checks/between.py).

    Args:
        request: As it is to be.
        hosts: The other hosts, each with its address on the network between them.
        overhead: By how many bytes what passes there is larger than what nodes send.
        untried: Those of them to which nothing is sent.
    """
    links = look_at_links()
    device, parent = links.get(request.device), links.get(request.parent)
    try:
        underlay = underlay_mtu(request.local, tuple(hosts.values()))
    except HostNotReady:
        underlay = None
    wanted = {
        "device": request.device,
        "parent": request.parent,
        "alias": alias_of(request.cluster),
        "vni": request.vni,
        "port": request.port,
        "local": request.local,
        "mtu": request.mtu,
        "overhead": overhead,
        "peers": dict(hosts),
    }
    sizes = {"small": _SMALL, "full": request.mtu + overhead}
    with ThreadPoolExecutor(_WORKERS) as pool:
        tried = [host for host in hosts if host not in untried]
        asked = {(host, size): pool.submit(ping_whole, hosts[host], sizes[size]) for host in tried for size in sizes}
    return {
        "wanted": wanted,
        "device": asdict(device) if device else None,
        "parent": asdict(parent) if parent else None,
        "underlay_mtu": underlay,
        "peers": list(find_peers(request.device)) if device else [],
        "echoes": {host: {size: asked[host, size].result() for size in sizes} for host in tried},
    }


class LocalOverlays:
    """This machine's ends of overlays, as a Host has them."""

    def __init__(self) -> None:
        self._keys = TunnelKeys()
        self._kept = KeptBridges()

    def preview(self, request: OverlayRequest) -> tuple[str, ...]:
        """What `ensure` would do."""
        return _lines(preview_overlay(request, self._keys))

    def ensure(self, request: OverlayRequest) -> tuple[str, ...]:
        """Bring an end to the request."""
        lines = ensure_overlay(request, self._keys)
        self._kept.keep(request)
        return lines

    def remove(self, cluster: str) -> tuple[str, ...]:
        """Remove a cluster's end."""
        self._kept.forget(cluster)
        return remove_overlay(cluster, self._keys)

    def find_key(self, cluster: str) -> str:
        """The public key of this host; empty where it has none."""
        return self._keys.find(cluster)

    def ensure_key(self, cluster: str) -> str:
        """The same; a key is made if there is none."""
        return self._keys.ensure(cluster)

    def look(
        self, request: OverlayRequest, hosts: Mapping[str, str], *, overhead: int, untried: Collection[str]
    ) -> dict[str, Any]:
        """An end, and the way to the others."""
        return look_at_overlay(request, hosts, overhead=overhead, untried=untried)

    def underlay_mtu(self, local: str) -> int:
        """Of the link that has the address."""
        return underlay_mtu(local, ())


def _route_to(peer: str, local: str) -> str:
    try:
        return run(["ip", "-j", "route", "get", peer, "from", local], timeout_s=_BUDGET_S).stdout
    except CommandFailed as error:
        raise HostNotReady(
            f"this host has no route to the host {peer}",
            evidence=error.evidence,
            fix=f"ip route get {peer}; or set hosts[].internal_ip in the spec to addresses that hosts can reach",
        ) from error


def _interface_of(address: str) -> str:
    shown = json.loads(run(["ip", "-j", "-4", "address"], timeout_s=_BUDGET_S).stdout or "[]")
    held: dict[str, str] = {info["local"]: link["ifname"] for link in shown for info in link["addr_info"]}
    if address not in held:
        raise HostNotReady(
            f"{address} is not an address of this host",
            evidence=f"it has {', '.join(held) or 'none'}",
            fix="set hosts[].internal_ip in the spec to the address by which the other hosts reach this one",
        )
    return held[address]


def _carry_out(steps: Sequence[Step]) -> None:
    """Run the commands: those of `ip`, then those of `bridge`, one for each host, in one process."""
    entries = [one for one in steps if one.argv[0] == "bridge"]
    for one in steps:
        if one.argv[0] != "bridge":
            done = run(one.argv, timeout_s=_BUDGET_S, check=False)
            if done.exit_code and not one.optional:
                raise _refusal(one, done)
    if entries:
        batch = "".join(f"{' '.join(one.argv[1:])}\n" for one in entries)
        done = run(["bridge", "-batch", "-"], timeout_s=_BUDGET_S, stdin=batch, check=False)
        if done.exit_code:
            raise _refusal(entries[0], done)


def _refusal(failed: Step, done: Completed) -> HostNotReady:
    return HostNotReady(
        f"cannot {failed.words}",
        evidence=done.stderr.strip() or "no reason given",
        fix=failed.fix or f"sudo {shlex.join(failed.argv)}",
    )


def _lines(steps: Sequence[Step]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.words for one in steps))
