"""`gpus`: every GPU of the host and who holds it, on all engines at once; reads only and takes no lock."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from gpuprov.core.rounds import watch_rounds
from gpuprov.shapes.base import of_object
from gpuprov.shapes.gpus import GpuChange, Holder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpuprov.cluster.foreign_gpus import ForeignUse
    from gpuprov.cluster.leases import Neighbours
    from gpuprov.core.errors import GpuprovError
    from gpuprov.gpu.allocate import Lease
    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.shapes.choices import Sharing


@dataclass(frozen=True, kw_only=True)
class GpuRow:
    """A GPU, or a MIG instance, with its holders.

    Attributes:
        gpu: None if the GPU is held but not (or no longer) visible on this host.
    """

    uuid: str
    gpu: Gpu | None
    holders: tuple[Lease, ...] = ()

    @property
    def sharing(self) -> Sharing | None:
        """None while it is free."""
        if not self.holders:
            return None
        return "exclusive" if any(lease.sharing == "exclusive" for lease in self.holders) else "shared"


@dataclass(frozen=True, kw_only=True)
class GpuBoard:
    """All GPUs at one moment.

    Attributes:
        leases: Of all engines that answer.
        waiting: Who stands in the queue, the first one first.
        silent: Why engines that are installed do not respond: the GPUs they hold are unknown.
        foreign: Running instances of others that can open GPUs without a lease.
    """

    host: HostGpus
    leases: tuple[Lease, ...]
    waiting: tuple[str, ...] = ()
    silent: Mapping[str, GpuprovError] = field(default_factory=dict)
    foreign: tuple[ForeignUse, ...] = ()

    @property
    def rows(self) -> tuple[GpuRow, ...]:
        """In NVML's order, those that are held and not there last."""
        return build_rows(self.host, self.leases)


def look_at_gpus(host: HostGpus, neighbours: Neighbours) -> GpuBoard:
    """Ask every engine of the host for its leases."""
    seen = neighbours.survey()
    return GpuBoard(
        host=host,
        leases=(*chain.from_iterable(held.leases for held in seen.answers.values()), *neighbours.containers()),
        foreign=tuple(chain.from_iterable(held.foreign for held in seen.answers.values())),
        waiting=tuple(f"{request.node} ({request.size}, {request.sharing})" for request in neighbours.waiting()),
        silent=seen.errors,
    )


def build_rows(host: HostGpus, leases: Iterable[Lease]) -> tuple[GpuRow, ...]:
    """Bring GPUs and leases together; a GPU that MIG has split into nothing is shown as well."""
    holders: dict[str, list[Lease]] = {}
    for lease in sorted(leases, key=lambda lease: (lease.engine, lease.node)):
        for uuid in map(host.current, lease.gpus):
            holders.setdefault(uuid, []).append(lease)
    unsplit = [gpu for gpu in host.gpus if gpu.mig_enabled and not gpu.mig]
    there = sorted((*host.units, *unsplit), key=lambda gpu: gpu.index)
    known = {gpu.uuid for gpu in there}
    return (
        *(GpuRow(uuid=gpu.uuid, gpu=gpu, holders=tuple(holders.get(gpu.uuid, ()))) for gpu in there),
        *(GpuRow(uuid=uuid, gpu=None, holders=tuple(who)) for uuid, who in holders.items() if uuid not in known),
    )


def watch_gpus(
    look: Callable[[], GpuBoard],
    *,
    rounds: Iterable[None],
    first: Callable[[GpuBoard], object],
    tell: Callable[[Sequence[GpuChange]], object],
) -> None:
    """Look once in each round; the first one is shown whole, later ones only where something has changed.

    Raises:
        GpuprovError: The first round could not be done.
    """
    watch_rounds(
        lambda before: _remember(before, look()),
        compare_boards,
        rounds=rounds,
        first=first,
        tell=tell,
        trouble=lambda error: GpuChange(kind="error" if error else "recovered", text=error or None),
    )


def _remember(before: GpuBoard | None, now: GpuBoard) -> GpuBoard:
    """Who does not answer has neither taken nor released anything, as far as anybody knows."""
    kept = [lease for lease in before.leases if lease.engine in now.silent] if before else []
    return replace(now, leases=(*now.leases, *kept))


def compare_boards(before: GpuBoard, now: GpuBoard) -> tuple[GpuChange, ...]:
    """What has changed, the host first."""
    changes: list[GpuChange] = []
    if before.host.driver_version != now.host.driver_version:
        changes.append(GpuChange(kind="driver", text=now.host.driver_version))
    was_silent, is_silent = before.silent, now.silent
    changes += [
        GpuChange(kind="silent", text=f"{engine}: {error.what}: {error.evidence}")
        for engine, error in is_silent.items()
        if engine not in was_silent
    ]
    changes += [GpuChange(kind="answers", text=engine) for engine in was_silent if engine not in is_silent]
    return (*changes, *_compare_rows(before, now))


def _compare_rows(before: GpuBoard, now: GpuBoard) -> list[GpuChange]:
    rows = [{row.uuid: row for row in board.rows} for board in (before, now)]
    changes = []
    for uuid in dict.fromkeys((*rows[1], *rows[0])):
        was, is_now = (by_uuid.get(uuid, GpuRow(uuid=uuid, gpu=None)) for by_uuid in rows)
        gpu = is_now.gpu or was.gpu
        label = gpu.label if gpu else None
        if bool(was.gpu) != bool(is_now.gpu):
            changes.append(GpuChange(kind="came" if is_now.gpu else "gone", uuid=uuid, label=label))
        # a holder is the same one whatever its status is
        held = [{(lease.engine, lease.node, lease.sharing): lease for lease in row.holders} for row in (was, is_now)]
        for released, one, other in ((True, held[0], held[1]), (False, held[1], held[0])):
            changes += [
                GpuChange(
                    kind="released" if released else "held", uuid=uuid, label=label, holder=of_object(Holder, lease)
                )
                for key, lease in one.items()
                if key not in other
            ]
    return changes
