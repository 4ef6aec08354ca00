"""Which node holds which GPU: decided for all nodes at once, from the leases that are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.spec.models import Sharing


@dataclass(frozen=True, kw_only=True)
class Lease:
    """What a node holds, as its labels say; `gpus` are UUIDs of GPUs or MIG instances."""

    node: str
    gpus: tuple[str, ...]
    sharing: Sharing


@dataclass(frozen=True, kw_only=True)
class LeaseRequest:
    """What a node shall hold.

    Attributes:
        count: How many; 0 for none.
        wanted: UUIDs that the user named; then these and no others, and `count` is not looked at.
    """

    node: str
    sharing: Sharing
    count: int = 1
    wanted: tuple[str, ...] = ()


def allocate(host: HostGpus, leases: Sequence[Lease], requests: Sequence[LeaseRequest]) -> dict[str, tuple[Gpu, ...]]:
    """Choose GPUs for every request, or for none.

    A node whose lease already is what it asks for keeps it. `exclusive` takes GPUs that nobody holds; `shared` the
    least loaded ones that nobody holds exclusively, lowest index first.

    Args:
        host: Its GPUs.
        leases: Of every node on this host, those of the requests included.
        requests: What nodes shall hold; a node is named once.

    Returns:
        Units by node, in the order of the requests.

    Raises:
        UsageError: There are not enough; it says who holds what.
        HostNotReady: A node that keeps its lease holds a GPU which is no longer there.
    """
    asked = {request.node: request for request in requests}
    if len(asked) != len(requests):
        raise UsageError(
            "a node is asked for twice",
            evidence=", ".join(request.node for request in requests),
            fix="name each node once",
        )
    held = {lease.node: lease for lease in leases}
    kept = [lease for lease in leases if lease.node not in asked or _serves(lease, asked[lease.node])]
    board = _Board(host, kept)
    chosen = {lease.node: board.units_of(lease) for lease in kept if lease.node in asked}
    # The choosy first: a named GPU or a free one must not be taken by a node that could do with any.
    for request in sorted(requests, key=lambda request: (not request.wanted, request.sharing != "exclusive")):
        if request.node not in chosen:
            before = held[request.node].gpus if request.node in held else ()
            chosen[request.node] = board.take(request, before=before)
    return {request.node: chosen[request.node] for request in requests}


def _serves(lease: Lease, request: LeaseRequest) -> bool:
    if lease.sharing != request.sharing:
        return False
    return set(lease.gpus) == set(request.wanted) if request.wanted else len(lease.gpus) == request.count


class _Board:
    """Who holds what, while requests are served one after the other."""

    def __init__(self, host: HostGpus, leases: Sequence[Lease]) -> None:
        self._units = host.units
        self._leases = list(leases)

    def units_of(self, lease: Lease) -> tuple[Gpu, ...]:
        by_uuid = {unit.uuid: unit for unit in self._units}
        gone = [uuid for uuid in lease.gpus if uuid not in by_uuid]
        if gone:
            raise HostNotReady(
                f"{lease.node} holds a GPU that this host no longer has",
                evidence=f"{', '.join(gone)}; there are: {', '.join(by_uuid) or 'none'}",
                fix=f"gpuprov rm {lease.node}, then create it again; or bring the GPU back: nvidia-smi -L",
            )
        return tuple(by_uuid[uuid] for uuid in lease.gpus)

    def take(self, request: LeaseRequest, *, before: Sequence[str]) -> tuple[Gpu, ...]:
        free = [unit for unit in self._units if self._may_take(unit, request.sharing)]
        if request.wanted:
            found = [unit for unit in self._units if unit.uuid in request.wanted]
            chosen = [unit for unit in found if unit in free]
            count = len(request.wanted)
        else:
            position = {unit.uuid: number for number, unit in enumerate(self._units)}
            free.sort(key=lambda unit: (unit.uuid not in before, len(self._holders(unit)), position[unit.uuid]))
            chosen = sorted(free[: request.count], key=lambda unit: position[unit.uuid])
            count = request.count
        if len(chosen) < count:
            raise self._refusal(request, count=count, available=len(chosen))
        self._leases.append(Lease(node=request.node, gpus=tuple(unit.uuid for unit in chosen), sharing=request.sharing))
        return tuple(chosen)

    def _holders(self, unit: Gpu) -> list[Lease]:
        return [lease for lease in self._leases if unit.uuid in lease.gpus]

    def _may_take(self, unit: Gpu, sharing: Sharing) -> bool:
        holders = self._holders(unit)
        return not holders if sharing == "exclusive" else all(lease.sharing == "shared" for lease in holders)

    def _refusal(self, request: LeaseRequest, *, count: int, available: int) -> UsageError:
        what = f"GPU {', '.join(request.wanted)}" if request.wanted else f"{count} GPU{'s' if count > 1 else ''}"
        if count > len(self._units):
            fix = f"ask for {len(self._units)} or fewer per node"
        elif request.sharing == "exclusive":
            fix = "fewer nodes (gpuprov cluster up -n N), --sharing shared, or free one: gpuprov rm NODE"
        else:
            fix = "free one: gpuprov rm NODE, where NODE holds it exclusively"
        return UsageError(
            f"{request.node} cannot have {what} ({request.sharing}): {available} of {count} can be given",
            evidence="; ".join(self._describe(unit) for unit in self._units)
            or "this host has no GPU that can be leased",
            fix=fix,
        )

    def _describe(self, unit: Gpu) -> str:
        holders = self._holders(unit)
        who = ", ".join(f"{lease.node} ({lease.sharing})" for lease in holders) or "free"
        return f"GPU {unit.label} {unit.uuid}: {who}"
