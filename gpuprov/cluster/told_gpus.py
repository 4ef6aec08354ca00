"""The GPUs of a host as its document tells them, and the board that another host's document is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET

from gpuprov.cluster.foreign_gpus import ForeignUse
from gpuprov.cluster.gpu_board import GpuBoard
from gpuprov.core.error_document import error_parts
from gpuprov.core.errors import GpuprovError
from gpuprov.gpu.allocate import Lease
from gpuprov.gpu.document import gpu_document
from gpuprov.gpu.lost import LostGpu
from gpuprov.gpu.models import Gpu, HostGpus, MigInstance
from gpuprov.shapes.base import changed, of_object
from gpuprov.shapes.gpus import (
    BoardOfHost,
    ForeignGpuUse,
    Gpus,
    HeldGpu,
    Holder,
    Mig,
    SilentEngine,
    ToldGpu,
    ToldLostGpu,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cluster.gpu_board import GpuRow
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.nodes import HostStatus


def tell_board(board: GpuBoard, *, host: str) -> Gpus:
    """All GPUs at one moment."""
    return Gpus(**_fields(board, host))


def tell_part(board: GpuBoard, *, host: str) -> BoardOfHost:
    """The same, as a part of what else the host says."""
    return BoardOfHost(**_fields(board, host))


def _fields(board: GpuBoard, host: str) -> dict[str, Any]:
    return {
        "host": host,
        "simulated": board.host.simulated,
        "reason": board.host.reason,
        "driver": board.host.driver_version,
        "gpus": tuple(_tell_gpu(row, board.host) for row in board.rows),
        "foreign": tuple(map(_tell_foreign, board.foreign)),
        "waiting": board.waiting,
        "lost": tuple(map(_tell_lost, board.host.lost)),
        "silent": tuple(
            SilentEngine(engine=cast("Engine", engine), **error_parts(error)) for engine, error in board.silent.items()
        ),
    }


def tell_boards(boards: Mapping[str, GpuBoard], hosts: tuple[HostStatus, ...], *, host: str) -> Gpus:
    """The same of several hosts as one, each GPU with its host; `host` is the machine that asked."""
    told = {name: tell_board(board, host=name) for name, board in boards.items()}
    return Gpus(
        host=host,
        hosts=hosts,
        **about_boards(boards),
        gpus=tuple(changed(gpu, host=name) for name, one in told.items() for gpu in one.gpus),
        foreign=tuple(use for one in told.values() for use in one.foreign),
        waiting=tuple(f"{name}: {who}" for name, one in told.items() for who in one.waiting),
        lost=tuple(changed(gpu, host=name) for name, one in told.items() for gpu in one.lost),
        silent=tuple(
            changed(silence, what=f"{name}: {silence.what}") for name, one in told.items() for silence in one.silent
        ),
    )


def about_boards(boards: Mapping[str, GpuBoard]) -> dict[str, Any]:
    """Whether GPUs are simulated, how that is known, and the driver where all hosts have the same."""
    drivers = {board.host.driver_version for board in boards.values()}
    return {
        "simulated": any(board.host.simulated for board in boards.values()),
        "reason": "; ".join(f"{name}: {board.host.reason}" for name, board in boards.items()),
        "driver": drivers.pop() if len(drivers) == 1 else "",
    }


def tell_holder(lease: Lease) -> Holder:
    """Who holds a GPU."""
    return of_object(Holder, lease)


def gpu_fields(uuid: str, gpu: Gpu | None) -> dict[str, Any]:
    """The fields of a ToldGpu."""
    told = gpu_document(uuid, gpu)
    return {**told, "mig": Mig(**told["mig"])}


def board_of(told: BoardOfHost) -> GpuBoard:
    """What a document of one host is about."""
    return GpuBoard(
        host=HostGpus(
            simulated=told.simulated,
            reason=told.reason,
            driver_version=told.driver,
            cuda_driver_version=None,
            gpus=tuple(_gpu_of(gpu) for gpu in told.gpus if gpu.present),
            lost=tuple(
                LostGpu(
                    index=one.index,
                    minor=one.minor,
                    pci=one.pci or "",
                    uuid=one.uuid or "",
                    model=one.model or "",
                    why=one.why,
                )
                for one in told.lost
            ),
        ),
        leases=_leases_of(told.gpus),
        waiting=told.waiting,
        silent={one.engine: GpuprovError(one.what, evidence=one.evidence, fix=one.fix) for one in told.silent},
        foreign=tuple(map(_foreign_of, told.foreign)),
    )


def _tell_gpu(row: GpuRow, host: HostGpus) -> HeldGpu:
    present = row.gpu is not None
    return HeldGpu(
        **gpu_fields(row.uuid, row.gpu),
        present=present,
        driver=host.driver_version if present else None,
        simulated=host.simulated if present else None,
        sharing=row.sharing,
        holders=tuple(map(tell_holder, row.holders)),
    )


def _tell_lost(gpu: LostGpu) -> ToldLostGpu:
    return ToldLostGpu(
        index=gpu.index,
        minor=gpu.minor,
        pci=gpu.pci or None,
        uuid=gpu.uuid or None,
        model=gpu.model or None,
        why=gpu.why,
    )


def _tell_foreign(use: ForeignUse) -> ForeignGpuUse:
    engine = cast("Engine", use.engine)
    return ForeignGpuUse(
        node=use.node, host=use.host, engine=engine, copy_of=use.copy_of or None, devices=tuple(use.devices)
    )


def _gpu_of(told: ToldGpu) -> Gpu:
    part = MigInstance(
        index=told.mig.index or 0,
        uuid=told.uuid,
        gpu_instance=told.mig.gpu_instance or 0,
        compute_instance=told.mig.compute_instance or 0,
        memory_bytes=told.memory_bytes,
        profile="" if told.mig.profile is UNSET else told.mig.profile,
    )
    major, _, minor = (told.compute_capability or "").partition(".")
    return Gpu(
        index=told.index or 0,
        uuid=told.uuid,
        minor=told.minor or 0,
        pci=told.pci or "",
        model=told.model or "",
        memory_bytes=told.memory_bytes,
        compute_capability=(int(major), int(minor)) if major else None,
        mig_enabled=bool(told.mig.enabled),
        mig=(part,) if told.mig.index is not None else (),
    )


def _leases_of(gpus: Sequence[HeldGpu]) -> tuple[Lease, ...]:
    """Each node's, from the holders of each GPU, by node."""
    held: dict[Holder, list[str]] = {}
    for gpu in gpus:
        for holder in gpu.holders:
            held.setdefault(holder, []).append(gpu.uuid)
    ordered = sorted(held, key=lambda one: (one.node, one.host, one.cluster, one.engine, one.status, one.sharing))
    return tuple(
        Lease(
            node=one.node,
            host=one.host,
            cluster=one.cluster,
            engine=one.engine,
            status=one.status,
            sharing=one.sharing,
            gpus=tuple(held[one]),
        )
        for one in ordered
    )


def _foreign_of(told: ForeignGpuUse) -> ForeignUse:
    return ForeignUse(
        node=told.node,
        host=told.host,
        engine=told.engine,
        copy_of=told.copy_of or "",
        devices=told.devices,
        words=f"a copy of {told.copy_of}" if told.copy_of else "which gpuprov did not create",
        stop=f"stop it on {told.host}",
    )
