"""Which host each new node is placed on: a pure function from what the hosts offer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpuprov.cluster.node_limits import GivenLimits
from gpuprov.core.errors import UsageError
from gpuprov.core.names import fold
from gpuprov.core.units import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.gpu.allocate import Claims, Lease
    from gpuprov.gpu.models import HostGpus
    from gpuprov.shapes.choices import RoleName
    from gpuprov.shapes.cluster_spec import ClusterSpec, Strategy
    from gpuprov.shapes.members import Offer
    from gpuprov.shapes.node import Mount

    Mounts = Mapping[RoleName | tuple[RoleName, str], tuple[Mount, ...]]

NODE_ROOM_BYTES = 64 * MIB  # a copy-on-write clone with its logs and spool
_TOLD = 10  # hosts in an error


@dataclass(frozen=True, kw_only=True)
class Place:
    """A host as the planning of its nodes sees it.

    Attributes:
        host: Its name.
        gpus: Its GPUs.
        leases: Of the nodes of the engine that the requests are for.
        claims: What its other engines hold, and who waits.
        shared: What it mounts in every node of a role, by role, and in single ones besides, by role and name.
        nodes: Which of the spec's nodes it is to have; None for all of them.
        taken: Addresses of nodes on other hosts, each with its holder.
        limits: Says those of a new node where the spec sets none; is only asked where there is one.
    """

    host: str
    gpus: HostGpus
    leases: tuple[Lease, ...]
    claims: Claims
    shared: Mounts = field(default_factory=dict)
    nodes: frozenset[str] | None = None
    taken: Mapping[str, str] = field(default_factory=dict)
    limits: Callable[[], GivenLimits] = GivenLimits


def _capacity(offer: Offer, memory_bytes: int) -> int:
    """How many more nodes a host takes if each is promised this much memory."""
    room = offer.room
    limits = [offer.more]
    if room.nodes is not None:
        limits.append(room.nodes)
    if room.disk_bytes is not None:
        limits.append(room.disk_bytes // NODE_ROOM_BYTES)
    if room.memory_bytes is not None and memory_bytes:
        limits.append(room.memory_bytes // memory_bytes)
    return 0 if offer.lack else max(0, min(limits))


class NoRoom(UsageError):
    """The hosts together cannot take the nodes; time or another host may cure it."""


def place_nodes(
    spec: ClusterSpec,
    wanted: Sequence[str],
    offers: Sequence[Offer],
    *,
    away: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """The host of each node; all of them, or an error.

    A node that exists stays where it is, also on a host that is unreachable. How many new ones a host gets follows from
    the strategy; which ones, from the order of the hosts, so that each has consecutive numbers as far as possible.

    Args:
        spec: The cluster.
        wanted: Names of all nodes that it is to have, in their order.
        offers: What the hosts that answer offer, in the order of the spec.
        away: The nodes of hosts that do not answer, each with its host.

    Raises:
        NoRoom: There is too little on all hosts together.
        UsageError: A node exists on several hosts.
    """
    answering = {offer.host for offer in offers}
    homes = {node: host for node, host in away.items() if host not in answering}
    for offer in offers:
        for node in offer.nodes:
            if homes.setdefault(node, offer.host) != offer.host:
                raise on_several_hosts(node, {host: host for host in (homes[node], offer.host)})
    new = [node for node in wanted if node not in homes]
    memory_bytes = (spec.nodes.memory_gib or 0) * GIB
    room = {offer.host: _capacity(offer, memory_bytes) for offer in offers}
    if spec.placement.strategy == "fixed":
        quota = {host.name: host.nodes or 0 for host in spec.hosts}
        there = Counter(homes.get(node) for node in wanted)
        room = {host: max(0, min(most, quota.get(host, 0) - there[host])) for host, most in room.items()}
    if sum(room.values()) < len(new):
        raise _no_room(spec, len(wanted), len(new), offers, room)
    counts = _COUNT[spec.placement.strategy](len(new), offers, room)
    hosts = (offer.host for offer in offers for _ in range(counts[offer.host]))
    placed = dict(zip(new, hosts, strict=True))
    return {node: homes.get(node) or placed[node] for node in wanted}


def _spread(count: int, offers: Sequence[Offer], room: Mapping[str, int]) -> dict[str, int]:
    """Each to the host with the most GPUs left: by the cluster's own nodes, then by all; then by the fewest nodes."""
    counts = {offer.host: 0 for offer in offers}
    heap = [
        (-offer.unshared if offer.size else 0, -offer.free if offer.size else 0, len(offer.nodes), number)
        for number, offer in enumerate(offers)
        if room[offer.host]
    ]
    heapify(heap)
    for _ in range(count):
        own, used, nodes, number = heap[0]
        offer = offers[number]
        counts[offer.host] += 1
        if counts[offer.host] < room[offer.host]:
            heapreplace(heap, (own + offer.size, used + offer.size, nodes + 1, number))
        else:
            heappop(heap)
    return counts


def _pack(count: int, offers: Sequence[Offer], room: Mapping[str, int]) -> dict[str, int]:
    """To hosts that have nodes already, then to those that take the most, the last ones to where they just fit."""
    counts = {offer.host: 0 for offer in offers}
    begun = [offer.host for offer in offers if offer.nodes]
    others = [offer.host for offer in offers if not offer.nodes]
    for hosts in (begun, others):
        waiting = sorted(hosts, key=lambda host: -room[host])  # stable: of equal ones the first of the spec
        while count and waiting:
            fitting = [host for host in waiting if room[host] >= count]
            host = min(fitting, key=lambda one: room[one]) if fitting else waiting[0]
            waiting.remove(host)
            counts[host] = min(count, room[host])
            count -= counts[host]
    return counts


def _fixed(count: int, offers: Sequence[Offer], room: Mapping[str, int]) -> dict[str, int]:
    """As many as each host is to have; nodes that are still on others are made up for by none."""
    counts = {}
    for offer in offers:
        counts[offer.host] = min(count, room[offer.host])
        count -= counts[offer.host]
    return counts


_COUNT: Mapping[Strategy, Callable[[int, Sequence[Offer], Mapping[str, int]], dict[str, int]]] = {
    "spread": _spread,
    "pack": _pack,
    "fixed": _fixed,
}


def on_several_hosts(node: str, homes: Mapping[str, str]) -> UsageError:
    """The error where hosts have a node of one name in one cluster; `homes` are these, each with its name for ssh."""
    ways = [f"ssh {destination} gpuprov rm {node}" for destination in homes.values()]
    return UsageError(
        f"the node {node} exists on {len(homes)} hosts",
        evidence=f"on {', '.join(homes)}",
        fix=f"remove all but one of them: {', or '.join(ways)}",
    )


def _no_room(spec: ClusterSpec, wanted: int, new: int, offers: Sequence[Offer], room: Mapping[str, int]) -> NoRoom:
    total = sum(room.values())
    fixed = spec.placement.strategy == "fixed"
    size = max((offer.size for offer in offers), default=0)
    each = f" with {size} GPU{'s' if size > 1 else ''} ({spec.gpus.sharing}) each" if size else ""
    short = [offer for offer in offers if not fixed or room[offer.host] < _still_due(spec, offer)]
    told = [_describe(offer, room[offer.host], spec) for offer in short[:_TOLD]]
    if len(short) > _TOLD:
        told.append(f"and {len(short) - _TOLD} more hosts")
    ways = [f"request fewer nodes: -n {wanted - new + total}"] if wanted - new + total else []
    ways = ["change hosts[].nodes in the spec"] if fixed else ways
    nodes = f"{new} more node{'s' if new > 1 else ''}{each}"
    return NoRoom(
        f"cluster {spec.name} cannot get {nodes}: its hosts have room for {total}",
        evidence="; ".join(told) or "no host answers",
        fix=", or ".join([*ways, "add a host to hosts in the spec", "free GPUs: gpuprov gpus"]),
    )


def _still_due(spec: ClusterSpec, offer: Offer) -> int:
    host = spec.host(offer.host)
    return max(0, ((host.nodes if host else 0) or 0) - len(offer.nodes))


def _describe(offer: Offer, room: int, spec: ClusterSpec) -> str:
    """What a host has, and lacks for more nodes."""
    if offer.lack:
        return f"{offer.host}: {offer.lack}"
    memory_gib, left = spec.nodes.memory_gib, offer.room
    said = [f"room for {room}"]
    if offer.size:
        said.append(f"{max(0, offer.free)} of {offer.gpus} GPUs free")
    if left.memory_bytes is not None and memory_gib:
        said.append(f"{left.memory_bytes // GIB} GiB of memory left, {memory_gib} GiB for each node")
    if left.disk_bytes is not None and left.disk_bytes // NODE_ROOM_BYTES <= room:
        said.append(f"{left.disk_bytes // MIB} MiB of storage free, {NODE_ROOM_BYTES // MIB} MiB for each node")
    if left.nodes is not None and left.nodes <= room:
        said.append(f"its kernel limits carry {left.nodes} more (`gpuprov host prepare` there raises them)")
    if offer.nodes:
        said.append(f"has {fold(offer.nodes)}")
    return f"{offer.host}: {', '.join(said)}"
