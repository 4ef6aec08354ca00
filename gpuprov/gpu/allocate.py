"""Which node holds which GPU: decided for all nodes at once, from the leases that are there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.names import RUN_END, fold
from gpuprov.gpu.models import Gpu

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from gpuprov.core.errors import GpuprovError
    from gpuprov.gpu.lost import LostGpu
    from gpuprov.gpu.models import HostGpus
    from gpuprov.shapes.choices import Sharing

CONTAINERS: Final = "(containers)"  # in place of a cluster, of what is no node and has leases all the same
TOO_FEW: Final = "not enough GPUs"  # how the refusal begins, by which other machines know it


@dataclass(frozen=True, kw_only=True)
class Lease:
    """What a node holds, as its labels say; `gpus` are UUIDs of GPUs or MIG instances.

    Attributes:
        host: That the node is on.
        engine: That runs the node.
        cluster: It is part of.
        status: Such as `stopped`: it holds its GPUs all the same.
        minors: Of the GPUs' devices in it; empty if its host does not report them.
    """

    node: str
    gpus: tuple[str, ...]
    sharing: Sharing
    host: str = ""
    engine: str = ""
    cluster: str = ""
    status: str = ""
    minors: tuple[int, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return fold_leases([self], Lease.terms)

    def terms(self) -> str:
        """How it holds them, and where: `shared, lxd, stopped`."""
        said = [self.sharing, self.engine, "" if self.status == "running" else self.status]
        return ", ".join(part for part in said if part)

    def whose(self) -> str:
        """The same, with its cluster: `cluster lab, shared, lxd`; a job is in none."""
        cluster = "" if self.cluster.startswith("(") else self.cluster
        return ", ".join(part for part in (f"cluster {cluster}" if cluster else "", self.terms()) if part)


class _OfNode(Protocol):
    @property
    def node(self) -> str: ...


OfNode = TypeVar("OfNode", bound=_OfNode)


def fold_leases(leases: Sequence[OfNode], about: Callable[[OfNode], str]) -> str:
    """Holders in few words, as there may be many: `c[000-003] (shared, lxd)`."""
    alike: dict[str, list[str]] = {}
    for lease in leases:
        alike.setdefault(about(lease), []).append(lease.node)
    return ", ".join(f"{fold(nodes)} ({words})" for words, nodes in alike.items())


@dataclass(frozen=True, kw_only=True)
class LeaseRequest:
    """The GPUs that a node requests.

    Attributes:
        node: Its name; of a request that waits, who waits.
        count: How many; 0 for none.
        wanted: UUIDs that the user named; then these and no others, and `count` is not looked at.
        among: UUIDs to choose from, such as those with enough memory; None for any.
    """

    node: str
    sharing: Sharing
    count: int = 1
    wanted: tuple[str, ...] = ()
    among: tuple[str, ...] | None = None

    @property
    def size(self) -> int:
        """How many GPUs it is for."""
        return len(self.wanted) or self.count


class GpusTaken(UsageError):
    """GPUs that this host has are not free now; time may cure it."""

    def __init__(self, what: str, *, evidence: str, fix: str, request: LeaseRequest) -> None:
        super().__init__(what, evidence=evidence, fix=fix)
        self.request = request


@dataclass(frozen=True, kw_only=True)
class Claims:
    """What an engine's own nodes do not show.

    Attributes:
        engine: Whose own nodes these do not show.
        leases: Of nodes of other engines.
        waiting: Requests that came earlier and wait, the oldest first.
        silent: Why engines that are installed do not answer: nobody knows which GPUs their containers hold.
        closed: The same of those that this user may not ask: shared GPUs are had all the same, others are not.
    """

    engine: str = ""
    leases: tuple[Lease, ...] = ()
    waiting: tuple[LeaseRequest, ...] = ()
    silent: Mapping[str, GpuprovError] = field(default_factory=dict)
    closed: Mapping[str, GpuprovError] = field(default_factory=dict)


def allocate(
    host: HostGpus,
    leases: Sequence[Lease],
    requests: Sequence[LeaseRequest],
    *,
    claims: Claims,
    cluster: str = "",
) -> dict[str, tuple[Gpu, ...]]:
    """Choose GPUs for every request, or for none.

    A node whose lease already matches its request keeps it. `exclusive` takes GPUs without holders; `shared` takes the
    GPUs without an exclusive holder that the fewest nodes of the same cluster hold, of these the least loaded, lowest
    index first. Waiting requests come first: GPUs that they could
    get now, or wait for, are reserved for them.

    Args:
        host: Its GPUs.
        leases: Those of all nodes of the engine, including the nodes of the requests.
        requests: The GPU requests of nodes of the engine, at most one for each node.
        claims: Leases of other engines, waiting requests, and engines that do not respond.
        cluster: Of the nodes that request; empty for a job, which is part of none.

    Returns:
        Units by node, in the order of the requests.

    Raises:
        UsageError: There are not enough GPUs (GpusTaken if that may change); the error lists the holders.
        HostNotReady: A node that keeps its lease holds a GPU which is no longer there, or another engine is silent.
    """
    leases = [_current(lease, host) for lease in leases]
    asked = {request.node: request for request in requests}
    if len(asked) != len(requests):
        raise UsageError(
            "a node is requested twice",
            evidence=", ".join(request.node for request in requests),
            fix="name each node once",
        )
    held = {lease.node: lease for lease in leases}
    lost = _lost_uuids(host, leases)
    kept = [lease for lease in leases if lease.node not in asked or _serves(lease, asked[lease.node], lost)]
    board = _Board(host, (*kept, *(_current(lease, host) for lease in claims.leases)), cluster=cluster)
    chosen = {lease.node: board.units_of(lease) for lease in kept if lease.node in asked}
    # Specific requests first: a node that accepts any GPU must not take a named or free one that another node needs.
    new = sorted(
        (request for request in requests if request.node not in chosen),
        key=lambda request: (not request.wanted, request.sharing != "exclusive"),
    )
    if any(request.size for request in new):
        _refuse_blindness(claims, [request.sharing for request in new if request.size])
    for waiting in claims.waiting:
        board.keep_for(waiting)
    for request in new:
        before = held[request.node].gpus if request.node in held else ()
        chosen[request.node] = board.take(request, before=before)
    return {request.node: chosen[request.node] for request in requests}


@dataclass(frozen=True, kw_only=True)
class Supply:
    """What a host could give to nodes that request the same.

    Attributes:
        nodes: For how many of them its GPUs suffice now.
        unshared: GPUs that such a node may take, less one for each holder of the same cluster that these have already.
        free: GPUs that such a node may take, less one for each holder that these have already.
        gpus: Of the kind that is requested, held or not.
    """

    nodes: int
    unshared: int = 0
    free: int = 0
    gpus: int = 0


def count_supply(
    host: HostGpus, leases: Sequence[Lease], request: LeaseRequest, *, claims: Claims, most: int, cluster: str = ""
) -> Supply:
    """For how many new nodes the GPUs of a host suffice, as `allocate` would give them, `most` at most.

    Args:
        host: Its GPUs.
        leases: Those of all nodes of the engine.
        request: What each of the nodes requests; its name does not count.
        claims: As for `allocate`.
        most: How many are of interest.
        cluster: Of the nodes.

    Raises:
        HostNotReady: Another engine is silent, so that nobody knows which GPUs are free.
    """
    if not request.size:
        return Supply(nodes=most)
    _refuse_blindness(claims, [request.sharing])
    board = _Board(host, [_current(lease, host) for lease in (*leases, *claims.leases)], cluster=cluster)
    for waiting in claims.waiting:
        board.keep_for(waiting)
    gpus, unshared, free = board.look(request)
    return Supply(nodes=board.serve(request, most), unshared=unshared, free=free, gpus=gpus)


def _current(lease: Lease, host: HostGpus) -> Lease:
    return replace(lease, gpus=tuple(host.current(uuid) for uuid in lease.gpus))


def _lost_uuids(host: HostGpus, leases: Sequence[Lease]) -> set[str]:
    """What is held and not there, where the host has lost a GPU: it may come back, so its node keeps the lease."""
    held = {uuid for lease in leases for uuid in lease.gpus} if host.lost else set()
    return held - {unit.uuid for unit in host.units}


def _serves(lease: Lease, request: LeaseRequest, lost: Collection[str]) -> bool:
    if lease.sharing != request.sharing and lease.gpus:
        return False
    if request.wanted:
        return set(lease.gpus) == set(request.wanted)
    return len(lease.gpus) == request.count and (request.among is None or set(lease.gpus) <= {*request.among, *lost})


def _refuse_blindness(claims: Claims, asked: Collection[Sharing]) -> None:
    silent = claims.silent
    if claims.closed and "exclusive" in asked:
        raise HostNotReady(
            f"cannot tell which GPUs are free: this user may not query {' and '.join(claims.closed)}",
            evidence="; ".join(f"{engine}: {error.what}: {error.evidence}" for engine, error in claims.closed.items()),
            fix=f"--sharing shared; or {'; '.join(error.fix for error in claims.closed.values())}",
        )
    if silent:
        names = " and ".join(silent)
        verb = "does" if len(silent) == 1 else "do"
        raise HostNotReady(
            f"cannot tell which GPUs are free: {names} {verb} not respond, so the GPUs of its containers are unknown",
            evidence="; ".join(f"{engine}: {error.what}: {error.evidence}" for engine, error in silent.items()),
            fix="; ".join(error.fix for error in silent.values()),
        )


def place_lost(lease: Lease, units: Sequence[Gpu], lost: Sequence[LostGpu]) -> dict[str, Gpu]:
    """The lost GPUs that a node holds, as the devices that it has: they stay its own, and no device of another GPU.

    Nothing where nobody can tell which device is whose.
    """
    known = {unit.uuid: unit for unit in units}
    gone = [uuid for uuid in lease.gpus if uuid not in known]
    held = {known[uuid].minor for uuid in lease.gpus if uuid in known}
    own = [minor for minor in sorted(lease.minors) if minor not in held]
    taken = {unit.minor for unit in units}
    if not lost or len(own) != len(gone) or taken & set(own) or any(not uuid.startswith("GPU-") for uuid in gone):
        return {}
    by_minor = {gpu.minor: gpu for gpu in lost}
    found = {}
    for uuid, minor in zip(gone, own, strict=True):
        told = by_minor.get(minor)
        index = told.index if told and told.index is not None else len(units)
        pci, model = (told.pci, told.model) if told else ("", "")
        found[uuid] = Gpu(index=index, uuid=uuid, minor=minor, pci=pci, model=model)
    return found


class _Board:
    """The holders of all GPUs while requests are served one after the other."""

    def __init__(self, host: HostGpus, leases: Sequence[Lease], *, cluster: str) -> None:
        self._cluster = cluster
        self._units = host.units
        self._lost = host.lost
        self._position = {unit.uuid: number for number, unit in enumerate(host.units)}
        self._leases = list(leases)
        self._kept: dict[str, str] = {}  # UUID to who waits for it

    def units_of(self, lease: Lease) -> tuple[Gpu, ...]:
        by_uuid = {unit.uuid: unit for unit in self._units}
        by_uuid |= place_lost(lease, self._units, self._lost)
        gone = [uuid for uuid in lease.gpus if uuid not in by_uuid]
        if gone:
            lost = f"; lost: {'; '.join(map(str, self._lost))}" if self._lost else ""
            raise HostNotReady(
                f"{lease.node} holds a GPU that this host no longer has",
                evidence=f"missing: {', '.join(gone)}; present: {', '.join(by_uuid) or 'none'}{lost}",
                fix=f"restore the GPU: nvidia-smi -L; dmesg | grep NVRM; or, if it is gone for good and nothing in the "
                f"node is needed: gpuprov rm {lease.node}, then create it again",
            )
        return tuple(by_uuid[uuid] for uuid in lease.gpus)

    def keep_for(self, waiting: LeaseRequest) -> None:
        """Reserve what an earlier request could get now, or all GPUs that it may choose from."""
        chosen = self._choose(waiting, before=())
        if len(chosen) < waiting.size:
            chosen = [unit for unit in self._eligible(waiting) if self._may_take(unit, waiting.sharing)]
        self._kept |= {unit.uuid: waiting.node for unit in chosen}

    def take(self, request: LeaseRequest, *, before: Sequence[str]) -> tuple[Gpu, ...]:
        chosen = self._choose(request, before=before)
        if len(chosen) < request.size:
            raise self._refusal(request, available=len(chosen))
        held = tuple(unit.uuid for unit in chosen)
        self._leases.append(Lease(node=request.node, gpus=held, sharing=request.sharing, cluster=self._cluster))
        return tuple(chosen)

    def look(self, request: LeaseRequest) -> tuple[int, int, int]:
        """How many GPUs it may choose from, and may take, less one for each holder: of its cluster, of all."""
        eligible = self._eligible(request)
        open_ones = [unit for unit in eligible if self._may_take(unit, request.sharing)]
        unshared = sum(1 - self._own_holders(unit) for unit in open_ones)
        return len(eligible), unshared, sum(1 - len(self._holders(unit)) for unit in open_ones)

    def serve(self, request: LeaseRequest, most: int) -> int:
        """How many times the request can be granted; who shares GPUs takes them from nobody."""
        for number in range(most):
            chosen = self._choose(request, before=())
            if len(chosen) < request.size:
                return number
            if request.sharing == "shared":
                return most
            held = tuple(unit.uuid for unit in chosen)
            self._leases.append(Lease(node=f"{request.node} {number}", gpus=held, sharing=request.sharing))
        return most

    def _choose(self, request: LeaseRequest, *, before: Sequence[str]) -> list[Gpu]:
        """As many as can be had, in the host's order."""
        free = [unit for unit in self._eligible(request) if self._may_take(unit, request.sharing)]
        if not request.wanted:
            free.sort(key=lambda unit: (unit.uuid not in before, *self._load(unit), self._position[unit.uuid]))
            free = free[: request.count]
        return sorted(free, key=lambda unit: self._position[unit.uuid])

    def _eligible(self, request: LeaseRequest) -> list[Gpu]:
        if request.wanted:
            return [unit for unit in self._units if unit.uuid in request.wanted]
        return [unit for unit in self._units if request.among is None or unit.uuid in request.among]

    def _holders(self, unit: Gpu) -> list[Lease]:
        return [lease for lease in self._leases if unit.uuid in lease.gpus]

    def _own_holders(self, unit: Gpu) -> int:
        return sum(1 for lease in self._holders(unit) if self._cluster and lease.cluster == self._cluster)

    def _load(self, unit: Gpu) -> tuple[int, int]:
        """What counts against a GPU: first that nodes of the same cluster hold it, then that others do."""
        return self._own_holders(unit), len(self._holders(unit))

    def _may_take(self, unit: Gpu, sharing: Sharing) -> bool:
        if unit.uuid in self._kept:
            return False
        holders = self._holders(unit)
        return not holders if sharing == "exclusive" else all(lease.sharing == "shared" for lease in holders)

    def _refusal(self, request: LeaseRequest, *, available: int) -> UsageError:
        eligible = self._eligible(request)
        what = (
            f"GPU {', '.join(request.wanted)}"
            if request.wanted
            else f"{request.size} GPU{'s' if request.size > 1 else ''}"
        )
        refusal = f"{TOO_FEW} for {request.node}: {what} requested ({request.sharing}), {available} available"
        evidence = "; ".join(self._describe(unit) for unit in eligible) or "this host has no GPU to lease"
        if request.size > len(eligible):
            return UsageError(refusal, evidence=evidence, fix=f"request {len(eligible)} or fewer per node")
        return GpusTaken(refusal, evidence=evidence, fix=self._way_out(request, eligible), request=request)

    def _way_out(self, request: LeaseRequest, eligible: Sequence[Gpu]) -> str:
        """What to type: wait, or share; whose the node is that stands in the way is told, and not how to remove it."""
        blocked = [unit for unit in eligible if not self._may_take(unit, request.sharing)]
        holder = next((lease for unit in blocked for lease in self._holders(unit) if lease.status), None)
        ways = [] if holder is not None else ["request fewer nodes: -n N"]
        if holder is not None or any(unit.uuid in self._kept for unit in blocked):
            ways.append("wait for a GPU (create-node, run): --wait 10m")
        if request.sharing == "exclusive":
            ways.append("--sharing shared")
        if holder is not None and holder.cluster == CONTAINERS:
            ways.append(f"ask whose container it is: {holder.engine} inspect {holder.node}")
        elif holder is not None and holder.node.endswith(RUN_END):
            ways.append("look whose container has it: gpuprov run ps")
        elif holder is not None:
            ways.append(f"ask whose GPU it is now: gpuprov show {holder.node} --engine {holder.engine}")
        return ", or ".join(ways)

    def _describe(self, unit: Gpu) -> str:
        who = fold_leases(self._holders(unit), Lease.whose) or "free"
        kept = f", reserved for {self._kept[unit.uuid]}, which is waiting" if unit.uuid in self._kept else ""
        return f"GPU {unit.label} {unit.uuid}: {who}{kept}"
