"""The rules for `hosts` of a spec, and for what belongs to them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.cluster_spec import OverlaySpec, PlacementSpec, UnreachableSpec
from gpuprov.spec.rule import SpecRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from gpuprov.shapes.cluster_spec import ClusterSpec, HostSpec
    from gpuprov.spec.rule import Found


def _names(spec: ClusterSpec, _root: Path) -> Found:
    yield from _twice(spec, "name", lambda host: host.name)


def _machines(spec: ClusterSpec, _root: Path) -> Found:
    """A machine that is named twice would lease each of its GPUs twice."""
    yield from _twice(spec, "address", lambda host: (host.ssh_target, host.port))
    yield from _twice(spec, "internal_ip", lambda host: host.internal_ip)


def _twice(spec: ClusterSpec, key: str, get: Callable[[HostSpec], object]) -> Found:
    first: dict[object, str] = {}
    for at, host in _each(spec):
        value = get(host)
        if value is None:
            continue
        if value in first:
            yield f"{at}.{key}", f"is that of {first[value]}", f"another {key} for each host"
        first.setdefault(value, at)


def _internal_ips(spec: ClusterSpec, _root: Path) -> Found:
    for at, host in _each(spec):
        if host.internal_ip is None:
            continue
        try:
            address = IPv4Address(host.internal_ip)
        except ValueError:
            yield (
                f"{at}.internal_ip",
                f"{host.internal_ip[:80]!r} is not an IPv4 address",
                "an address such as 10.9.0.11",
            )
            continue
        for key in ("subnet", "private_subnet"):
            if address in _subnet(getattr(spec.network, key)):
                message = f"{address} is in network.{key}, where only nodes are"
                yield f"{at}.internal_ip", message, "the host's address on the network between the hosts"


def _subnet(text: str) -> Iterable[IPv4Address]:
    try:
        return IPv4Network(text)
    except ValueError:
        return ()


def _counts(spec: ClusterSpec, _root: Path) -> Found:
    for at, host in _each(spec):
        if spec.placement.strategy != "fixed" and host.nodes is not None:
            allowed = "null; or set placement.strategy to fixed"
            yield f"{at}.nodes", f"has no effect with placement.strategy {spec.placement.strategy}", allowed
        elif spec.placement.strategy == "fixed" and host.nodes is None:
            yield f"{at}.nodes", "is required with placement.strategy fixed", "0 or more"


def _sum(spec: ClusterSpec, _root: Path) -> Found:
    counts = [host.nodes for host in spec.hosts]
    if spec.placement.strategy != "fixed" or None in counts or not spec.hosts:
        return
    total = sum(count for count in counts if count is not None)
    if total != spec.nodes.count:
        yield (
            "nodes.count",
            f"is {spec.nodes.count}, but the hosts have {total} nodes in all",
            f"{total}; or other hosts[].nodes",
        )


def _overlay(spec: ClusterSpec, _root: Path) -> Found:
    overlay = spec.network.overlay
    if overlay.type == "none" and overlay.encryption != "none":
        yield "network.overlay.encryption", f"is {overlay.encryption} of an overlay of type none", "none; or type vxlan"


def _need_hosts(spec: ClusterSpec, _root: Path) -> Found:
    """Without hosts these keys are not recorded: what they say would be lost."""
    if spec.hosts:
        return
    said = {
        "placement": spec.placement != PlacementSpec(),
        "network.overlay": spec.network.overlay != OverlaySpec(),
        "unreachable": spec.unreachable != UnreachableSpec(),
    }
    for path, is_said in said.items():
        if is_said:
            yield path, "has no effect without hosts", "its default; or hosts"


def _each(spec: ClusterSpec) -> Iterable[tuple[str, HostSpec]]:
    return [(f"hosts[{index}]", host) for index, host in enumerate(spec.hosts)]


HOST_RULES: Final[tuple[SpecRule, ...]] = (
    SpecRule(reads=("hosts",), find=_names),
    SpecRule(reads=("hosts",), find=_machines),
    SpecRule(reads=("hosts", "network.subnet", "network.private_subnet"), find=_internal_ips),
    SpecRule(reads=("hosts", "placement.strategy"), find=_counts),
    SpecRule(reads=("hosts", "placement.strategy", "nodes.count"), find=_sum),
    SpecRule(reads=("network.overlay",), find=_overlay),
    SpecRule(reads=("hosts", "placement", "network.overlay", "unreachable"), find=_need_hosts),
)
