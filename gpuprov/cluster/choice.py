"""Bridges, subnets and a prefix of node names that nothing else on the host has: chosen, or refused. Pure functions."""

from __future__ import annotations

from functools import cache
from ipaddress import IPv4Network
from itertools import chain, count, product
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.core.names import BRIDGES
from gpuprov.machine.findings import takes
from gpuprov.shapes.base import changed
from gpuprov.spec.addressing import node_name
from gpuprov.spec.draft import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from gpuprov.cluster.taken import Taken
    from gpuprov.drivers.networks import NetworkRequest
    from gpuprov.machine.links import Link
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.spec.draft import Draft

Pair = tuple[str, str]  # of the NAT network and of the private one

_MOST_BRIDGES: Final = 1000
_NODE_SUBNETS: Final = range(3, 252, 4)  # 10.0.3.0/24 and 10.0.5.0/24, then 10.0.7.0/24 and 10.0.9.0/24, ...
_BLOCKS: Final = (
    *(f"10.{number}" for number in range(256)),
    *(f"172.{number}" for number in range(16, 32)),
    "192.168",
)


def choose(draft: Draft, taken: Taken) -> ClusterSpec:
    """Fill in what was left open: what the draft prefers where that is free, else the first that is.

    Bridges go in pairs, and so do subnets, as long as nobody has said one of the two.

    Raises:
        UsageError: None is free.
    """
    spec, wanted, left = draft.spec, draft.spec.network, draft.left
    bridges = _pick(
        (wanted.bridge, wanted.private_bridge),
        ("network.bridge" in left, "network.private_bridge" in left),
        ((f"{BRIDGES}{number}", f"{BRIDGES}{number + 1}") for number in range(0, _MOST_BRIDGES, 2)),
        free=lambda name: name not in taken.names,
        differ=lambda one, other: one != other,
    )
    subnets = None
    for covered, free in (
        ((False,), lambda subnet: _untouched(subnet, taken.links)),
        ((False, True), lambda subnet: not _users(subnet, taken.links)),
    ):
        subnets = subnets or _pick(
            (wanted.subnet, wanted.private_subnet),
            ("network.subnet" in left, "network.private_subnet" in left),
            _usual_subnets(taken.links, covered=covered),
            free=free,
            differ=lambda one, other: not IPv4Network(one).overlaps(IPv4Network(other)),
        )
    if bridges is None or subnets is None:
        raise UsageError(
            f"no {'subnet' if bridges else 'bridge name'} is free for the networks of cluster {spec.name}",
            evidence=f"this host has {len(taken.names)} interfaces and networks, with {len(taken.links)} subnets",
            fix="choose bridges and subnets: network in a spec (docs/spec.md)",
        )
    network = changed(
        wanted, bridge=bridges[0], private_bridge=bridges[1], subnet=subnets[0], private_subnet=subnets[1]
    )
    prefix = _choose_prefix(spec, taken) if PREFIX in left else spec.nodes.prefix
    return changed(spec, network=network, nodes=changed(spec.nodes, prefix=prefix))


def _pick(
    wanted: Pair,
    left: tuple[bool, bool],
    usual: Iterable[Pair],
    *,
    free: Callable[[str], bool],
    differ: Callable[[str, str], bool],
) -> Pair | None:
    """The first pair that is free, where it was `left` open."""
    if not any(left):
        return wanted
    for one, other in chain([wanted], usual):
        pair = (one if left[0] else wanted[0], other if left[1] else wanted[1])
        if differ(*pair) and all(free(value) for value, is_left in zip(pair, left, strict=True) if is_left):
            return pair
    return None


def _usual_subnets(links: Iterable[Link], *, covered: Iterable[bool]) -> Iterator[Pair]:
    """Pairs of /24: of blocks that a route or network of the host covers as a whole, of others, or of both in turn."""
    wide = [link.network for link in links]
    for is_covered, block in product(covered, _BLOCKS):
        if any(_network(f"{block}.0.0/16").subnet_of(network) for network in wide) == is_covered:
            for third in _NODE_SUBNETS:
                yield f"{block}.{third}.0/24", f"{block}.{third + 2}.0/24"


@cache
def _network(subnet: str) -> IPv4Network:
    return IPv4Network(subnet)


def _untouched(subnet: str, links: Iterable[Link]) -> bool:
    wanted = IPv4Network(subnet)
    return not any(link.network.overlaps(wanted) for link in links)


def _users(subnet: str, links: Iterable[Link]) -> list[Link]:
    wanted = IPv4Network(subnet)
    return [link for link in links if takes(link, wanted)]


def _choose_prefix(spec: ClusterSpec, taken: Taken) -> str:
    """The usual one, else the cluster's name: no other node of the host has such a name."""
    names = chain([spec.nodes.prefix, f"{spec.name}-"], (f"{spec.name}{number}-" for number in count(2)))
    return next(
        prefix
        for prefix in names
        if prefix not in taken.prefixes
        and not any(node_name(prefix, number) in taken.nodes for number in range(spec.nodes.count))
    )


def refuse_taken_networks(spec: ClusterSpec, requests: Collection[NetworkRequest], taken: Taken) -> None:
    """Refuse to make networks whose names or subnets something else has.

    Args:
        requests: Its networks that are to be made.
        taken: What others have.

    Raises:
        NotOurs: An interface or a network has the name, and gpuprov did not make it.
        UsageError: A network of another cluster has it, or the subnet is in use.
    """
    for request in requests:
        holder = taken.names.get(request.name)
        if holder is not None and not holder.cluster:
            raise NotOurs(
                f"the network {request.name} exists and was not created by gpuprov",
                evidence=holder.evidence,
                fix="choose other bridges: network.bridge and network.private_bridge in the spec; omit them to get "
                "free ones",
            )
        if holder is not None:
            raise UsageError(
                f"the network {request.name} belongs to cluster {holder.cluster}",
                evidence=holder.evidence,
                fix=f"choose other bridges for cluster {spec.name}, or omit them to get free ones",
            )
    for subnet in (spec.network.subnet, spec.network.private_subnet) if requests else ():
        users = _users(subnet, taken.links)
        if users:
            raise UsageError(
                f"the subnet {subnet} is in use on this host",
                evidence=f"{users[0].address or users[0].network} on {users[0].interface}",
                fix="choose other subnets: --subnet, or network.subnet and network.private_subnet in the spec; omit "
                "them to get free ones",
            )


def describe_choice(draft: Draft, spec: ClusterSpec) -> str:
    """What was chosen other than preferred, in a sentence; empty where nothing was."""
    old, new = draft.spec.network, spec.network
    parts = [
        f"{chosen} instead of {preferred}"
        for preferred, chosen in (
            (old.bridge, new.bridge),
            (old.subnet, new.subnet),
            (old.private_bridge, new.private_bridge),
            (old.private_subnet, new.private_subnet),
            (node_name(draft.spec.nodes.prefix, 0), node_name(spec.nodes.prefix, 0)),
        )
        if chosen != preferred
    ]
    return f"cluster {spec.name} has {', '.join(parts)}, because those are in use on this host" if parts else ""
