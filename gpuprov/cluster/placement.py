"""Which host each node is placed on: a pure function from requests and hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.gpu.allocate import Claims, Lease, LeaseRequest
    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.devices import Mount
    from gpuprov.spec.models import Role, Sharing


@dataclass(frozen=True, kw_only=True)
class Place:
    """A host as placement sees it.

    Attributes:
        host: Its name.
        gpus: Its GPUs.
        leases: Of the nodes of the engine that the requests are for.
        claims: What its other engines hold, and who waits.
        shared: What it mounts in every node of a role, by role.
    """

    host: str
    gpus: HostGpus
    leases: tuple[Lease, ...]
    claims: Claims
    shared: Mapping[Role, tuple[Mount, ...]] = field(default_factory=dict)


def place(requests: Sequence[LeaseRequest], places: Sequence[Place]) -> dict[str, str]:
    """The host of each requested node.

    A node that holds GPUs somewhere stays there, so that growing moves nothing. The others go, in their order, to the
    host with the most GPUs left for them; between equal ones the first. Whether the GPUs suffice is for `allocate` to
    say, which knows who holds what.

    Args:
        requests: What the nodes are to hold; each node once.
        places: The hosts, at least one.
    """
    homes = {lease.node: one.host for one in places for lease in one.leases}
    held = {one.host: _held(one) for one in places}
    used: dict[str, int] = dict.fromkeys(held, 0)
    placed: dict[str, str] = {}
    for request in requests:
        home = homes.get(request.node)
        if home is None:
            home = max(places, key=lambda one: _left(one, held[one.host], request) - used[one.host]).host
            used[home] += request.size
        placed[request.node] = home
    return placed


def _held(one: Place) -> dict[str, set[Sharing]]:
    """How each held GPU of a host is held, by its current UUID."""
    held: dict[str, set[Sharing]] = {}
    for lease in (*one.leases, *one.claims.leases):
        for uuid in lease.gpus:
            held.setdefault(one.gpus.current(uuid), set()).add(lease.sharing)
    return held


def _left(one: Place, held: Mapping[str, set[Sharing]], request: LeaseRequest) -> int:
    """How many GPUs a host could give to a request now."""
    return sum(_serves(unit.uuid, held.get(unit.uuid, set()), request) for unit in one.gpus.units)


def _serves(uuid: str, holders: set[Sharing], request: LeaseRequest) -> bool:
    if uuid not in (request.wanted or request.among or (uuid,)):
        return False
    return not holders if request.sharing == "exclusive" else holders <= {"shared"}
