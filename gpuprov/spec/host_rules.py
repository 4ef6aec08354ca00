"""The rules for `hosts` of a spec, and for what belongs to them."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Final

from gpuprov.spec.models import OverlaySpec, PlacementSpec, UnreachableSpec
from gpuprov.spec.rule import SpecRule, in_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from gpuprov.spec.models import ClusterSpec, HostSpec
    from gpuprov.spec.rule import Found

MTU_LEAST, MTU_MOST = 1280, 9166  # IPv6's least, and what a jumbo frame leaves a VXLAN
_PORT_MOST = 65_535
_AWAY_LEAST_S, _AWAY_MOST_S = 5, 86_400

# ssh takes what begins with - for an option, and runs commands that some options name: no value can begin with one.
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9._:%-]{0,251}[A-Za-z0-9])?"
_USER = r"[A-Za-z_][A-Za-z0-9._-]{0,62}"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_JUMP = re.compile(rf"(?:{_USER}@)?[A-Za-z0-9](?:[A-Za-z0-9._-]{{0,251}}[A-Za-z0-9])?(?::[0-9]{{1,5}})?")
_FORMS: Final[dict[str, tuple[re.Pattern[str], str]]] = {
    "name": (_NAME, "1 to 32 of a-z, 0-9 and -; neither starts nor ends with -"),
    "address": (re.compile(_HOST), "a host name, an IP address, or an alias in ~/.ssh/config"),
    "user": (re.compile(_USER), "the name of a user"),
    "identity_file": (re.compile(r"[^-\s\x00-\x1f\x7f][^\x00-\x1f\x7f]{0,4000}"), "the path of a private key"),
}


def _forms(spec: ClusterSpec, _root: Path) -> Found:
    for at, host in _each(spec):
        for key, (form, allowed) in _FORMS.items():
            value = getattr(host, key)
            if value is not None and not form.fullmatch(value):
                yield f"{at}.{key}", f"{value[:80]!r} is not valid", allowed
        jumps = host.proxy_jump.split(",") if host.proxy_jump is not None else []
        if not all(_JUMP.fullmatch(jump) for jump in jumps):
            yield (
                f"{at}.proxy_jump",
                f"{str(host.proxy_jump)[:80]!r} is not valid",
                "[USER@]HOST[:PORT], more after commas",
            )
        if host.port is not None and not 1 <= host.port <= _PORT_MOST:
            yield f"{at}.port", f"is {host.port}", f"1 to {_PORT_MOST}"


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
        elif host.nodes is not None and host.nodes < 0:
            yield f"{at}.nodes", f"is {host.nodes}", "0 or more"


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
    SpecRule(reads=("hosts",), find=_forms),
    SpecRule(reads=("hosts",), find=_names),
    SpecRule(reads=("hosts",), find=_machines),
    SpecRule(reads=("hosts", "network.subnet", "network.private_subnet"), find=_internal_ips),
    SpecRule(reads=("hosts", "placement.strategy"), find=_counts),
    SpecRule(reads=("hosts", "placement.strategy", "nodes.count"), find=_sum),
    SpecRule(reads=("network.overlay",), find=_overlay),
    in_range("network.overlay.vni", 1, 2**24 - 1, lambda spec: spec.network.overlay.vni),
    in_range("network.overlay.port", 1, _PORT_MOST, lambda spec: spec.network.overlay.port),
    in_range("network.overlay.mtu", MTU_LEAST, MTU_MOST, lambda spec: spec.network.overlay.mtu),
    in_range("unreachable.after_s", _AWAY_LEAST_S, _AWAY_MOST_S, lambda spec: spec.unreachable.after_s),
    SpecRule(reads=("hosts", "placement", "network.overlay", "unreachable"), find=_need_hosts),
)
