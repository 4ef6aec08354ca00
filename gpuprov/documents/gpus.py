"""`gpus`: every GPU of a host and who holds it, and what of that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.core.error_document import error_parts
from gpuprov.documents.envelope import document
from gpuprov.gpu.document import gpu_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cluster.foreign_gpus import ForeignUse
    from gpuprov.cluster.gpu_board import GpuBoard, GpuChange, GpuRow
    from gpuprov.gpu.allocate import Lease
    from gpuprov.gpu.lost import LostGpu
    from gpuprov.gpu.models import HostGpus


def board_document(board: GpuBoard, *, host: str) -> dict[str, Any]:
    """All GPUs at one moment."""
    return document(
        "gpus",
        host=host,
        simulated=board.host.simulated,
        reason=board.host.reason,
        driver=board.host.driver_version,
        gpus=[held_gpu_document(row, board.host) for row in board.rows],
        foreign=[_foreign_document(use) for use in board.foreign],
        waiting=list(board.waiting),
        lost=[lost_document(gpu) for gpu in board.host.lost],
        silent=[{"engine": engine, **error_parts(error)} for engine, error in board.silent.items()],
    )


def boards_document(boards: Mapping[str, GpuBoard], hosts: Sequence[Mapping[str, Any]], *, host: str) -> dict[str, Any]:
    """The same of several hosts as one, each GPU with its host; `host` is the machine that asked."""
    return document(
        "gpus",
        host=host,
        hosts=list(hosts),
        **about_boards(boards),
        gpus=[
            {"host": name, **held_gpu_document(row, board.host)} for name, board in boards.items() for row in board.rows
        ],
        foreign=[_foreign_document(use) for board in boards.values() for use in board.foreign],
        waiting=[f"{name}: {who}" for name, board in boards.items() for who in board.waiting],
        lost=[{"host": name, **lost_document(gpu)} for name, board in boards.items() for gpu in board.host.lost],
        silent=[
            {"engine": engine, **error_parts(error), "what": f"{name}: {error.what}"}
            for name, board in boards.items()
            for engine, error in board.silent.items()
        ],
    )


def lost_document(gpu: LostGpu) -> dict[str, Any]:
    """A GPU that cannot be used, and why."""
    known = {"index": gpu.index, "minor": gpu.minor, "pci": gpu.pci or None, "uuid": gpu.uuid or None}
    return {**known, "model": gpu.model or None, "why": gpu.why}


def about_boards(boards: Mapping[str, GpuBoard]) -> dict[str, Any]:
    """Whether GPUs are simulated, how that is known, and the driver where all hosts have the same."""
    drivers = {board.host.driver_version for board in boards.values()}
    return {
        "simulated": any(board.host.simulated for board in boards.values()),
        "reason": "; ".join(f"{name}: {board.host.reason}" for name, board in boards.items()),
        "driver": drivers.pop() if len(drivers) == 1 else "",
    }


def held_gpu_document(row: GpuRow, host: HostGpus) -> dict[str, Any]:
    """A GPU with its holders."""
    present = row.gpu is not None
    return {
        **gpu_document(row.uuid, row.gpu),
        "present": present,
        "driver": host.driver_version if present else None,
        "simulated": host.simulated if present else None,
        "sharing": row.sharing or None,
        "holders": [_holder_document(lease) for lease in row.holders],
    }


def changes_document(changes: Sequence[GpuChange], *, host: str) -> dict[str, Any]:
    """What is other than in the round before."""
    return document(
        "gpus-watch",
        host=host,
        changes=[
            {
                "kind": change.kind,
                "uuid": change.uuid or None,
                "label": change.label or None,
                "holder": _holder_document(change.holder) if change.holder else None,
                "text": change.text or None,
            }
            for change in changes
        ],
    )


def _foreign_document(use: ForeignUse) -> dict[str, Any]:
    return {
        "node": use.node,
        "host": use.host,
        "engine": use.engine,
        "copy_of": use.copy_of or None,
        "devices": list(use.devices),
    }


def _holder_document(lease: Lease) -> dict[str, str]:
    return {
        "node": lease.node,
        "host": lease.host,
        "cluster": lease.cluster,
        "engine": lease.engine,
        "status": lease.status,
        "sharing": lease.sharing,
    }
