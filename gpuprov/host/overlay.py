"""One host's end of an overlay: seen, made, repaired and removed with `ip` and `bridge`."""

from __future__ import annotations

import json
import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.core.execution import CommandFailed, run
from gpuprov.host.overlay_plan import (
    alias_of,
    find_underlay_mtu,
    parse_overlay_links,
    parse_peers,
    plan_overlay,
    plan_overlay_removal,
)
from gpuprov.host.ping import ping_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gpuprov.core.execution import Completed
    from gpuprov.host.overlay_plan import OverlayLink, OverlayRequest, Step

_BUDGET_S: Final = 10.0
_SMALL: Final = 64  # bytes of a ping that passes everywhere
_WORKERS: Final = 16


def ensure_overlay(request: OverlayRequest) -> tuple[str, ...]:
    """Bring this host's end of an overlay to the request; returns a line for each change, none where it is so.

    Raises:
        GpuprovError: The number or a name is taken, the bridge is missing, or the host refuses.
    """
    steps = preview_overlay(request)
    _interface_of(request.local)
    _carry_out(steps)
    left = preview_overlay(request) if steps else ()
    if left:
        raise HostNotReady(
            f"the overlay of cluster {request.cluster} is not as requested after it was set",
            evidence=f"still to do: {'; '.join(_lines(left))}",
            fix=f"ip -d link show dev {request.device}; bridge fdb show dev {request.device}",
        )
    return _lines(steps)


def preview_overlay(request: OverlayRequest) -> tuple[Step, ...]:
    """What `ensure_overlay` would do; raises what it would refuse, and changes nothing."""
    links = look_at_links()
    return plan_overlay(request, links, find_peers(request.device) if request.device in links else ())


def remove_overlay(cluster: str) -> tuple[str, ...]:
    """Remove the links of a cluster's overlay from this host; returns a line for each, none where there is none."""
    steps = plan_overlay_removal(cluster, look_at_links())
    _carry_out(steps)
    return _lines(steps)


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

    def preview(self, request: OverlayRequest) -> tuple[str, ...]:
        """What `ensure` would do."""
        return _lines(preview_overlay(request))

    def ensure(self, request: OverlayRequest) -> tuple[str, ...]:
        """Bring an end to the request."""
        return ensure_overlay(request)

    def remove(self, cluster: str) -> tuple[str, ...]:
        """Remove a cluster's end."""
        return remove_overlay(cluster)

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
    entries = [step for step in steps if step.argv[0] == "bridge"]
    for step in steps:
        if step.argv[0] != "bridge":
            done = run(step.argv, timeout_s=_BUDGET_S, check=False)
            if done.exit_code and not step.optional:
                raise _refusal(step, done)
    if entries:
        batch = "".join(f"{' '.join(step.argv[1:])}\n" for step in entries)
        done = run(["bridge", "-batch", "-"], timeout_s=_BUDGET_S, stdin=batch, check=False)
        if done.exit_code:
            raise _refusal(entries[0], done)


def _refusal(step: Step, done: Completed) -> HostNotReady:
    return HostNotReady(
        f"cannot {step.words}",
        evidence=done.stderr.strip() or "no reason given",
        fix=f"sudo {shlex.join(step.argv)}",
    )


def _lines(steps: Sequence[Step]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(step.words for step in steps))
