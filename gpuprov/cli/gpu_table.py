"""What `gpus` says: a table for people, documents of a fixed form (docs/gpus.schema.json) for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpuprov.cli.tables import render_table
from gpuprov.gpu.allocate import fold_leases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cluster.gpu_board import GpuBoard, GpuChange, GpuRow
    from gpuprov.gpu.allocate import Lease
    from gpuprov.gpu.models import Gpu

SCHEMA: Final = "gpuprov.gpus/v1"
WATCH_SCHEMA: Final = "gpuprov.gpus-watch/v1"
_HEADERS = ("GPU", "MODEL", "MEMORY", "MINOR", "PCI", "MIG", "DRIVER", "UUID", "SHARING", "HELD BY")
_GIB = 1024**3
_WORDS = {
    "came": "appeared",
    "gone": "disappeared",
    "error": "the GPUs cannot be read",
    "recovered": "the GPUs can be read again",
    "driver": "driver is now",
    "silent": "does not respond; the GPUs that it holds are unknown",
    "answers": "responds again",
}


def render_board(board: GpuBoard, *, colour: bool) -> str:
    """One line for each GPU, then who waits and who does not answer."""
    unheld = "unknown" if board.silent else "free"
    rows = [_cells(row, board.host.driver_version, unheld) for row in board.rows]
    lines = [render_table(_HEADERS, rows, colour=colour) if rows else f"no GPUs: {board.host.reason}"]
    lines += [f"waiting: {who}" for who in board.waiting]
    lines += [
        f"{engine} does not respond; the GPUs that it holds are unknown: {error.what}"
        for engine, error in board.silent.items()
    ]
    return "\n".join(lines)


def _cells(row: GpuRow, driver: str, unheld: str) -> tuple[object, ...]:
    holders = fold_leases(row.holders, _where)
    gpu = row.gpu
    if gpu is None:
        return ("", "(not on this host)", "", "", "", "", "", row.uuid, row.sharing, holders)
    memory = "" if gpu.memory_bytes is None else f"{gpu.memory_bytes / _GIB:.1f} GiB"
    return (
        *(gpu.label, gpu.model, memory, gpu.minor, gpu.pci, _mig_word(gpu), driver),
        *(row.uuid, row.sharing or unheld, holders),
    )


def _mig_word(gpu: Gpu) -> str:
    if gpu.is_mig_instance:
        return f"gi{gpu.mig[0].gpu_instance}/ci{gpu.mig[0].compute_instance}"
    return "no instances" if gpu.mig_enabled else "off"


def _where(lease: Lease) -> str:
    said = [lease.engine, lease.cluster, "" if lease.status == "running" else lease.status]
    return " ".join(part for part in said if part)


def board_document(board: GpuBoard) -> dict[str, Any]:
    """For programs."""
    host = board.host
    return {
        "schema": SCHEMA,
        "simulated": host.simulated,
        "reason": host.reason,
        "driver": host.driver_version,
        "gpus": [_row_document(row, host.driver_version, simulated=host.simulated) for row in board.rows],
        "waiting": list(board.waiting),
        "silent": [
            {"engine": engine, "what": error.what, "evidence": error.evidence, "fix": error.fix}
            for engine, error in board.silent.items()
        ],
    }


def _row_document(row: GpuRow, driver: str, *, simulated: bool) -> dict[str, Any]:
    gpu = row.gpu
    part = gpu.mig[0] if gpu and gpu.is_mig_instance else None
    capability = gpu.compute_capability if gpu else None
    return {
        "uuid": row.uuid,
        "present": gpu is not None,
        "label": gpu.label if gpu else None,
        "index": gpu.index if gpu else None,
        "minor": gpu.minor if gpu else None,
        "pci": gpu.pci if gpu else None,
        "mig": {
            "enabled": gpu.mig_enabled if gpu else None,
            "index": part.index if part else None,
            "gpu_instance": part.gpu_instance if part else None,
            "compute_instance": part.compute_instance if part else None,
        },
        "model": gpu.model if gpu else None,
        "memory_bytes": gpu.memory_bytes if gpu else None,
        "compute_capability": ".".join(map(str, capability)) if capability else None,
        "driver": driver if gpu else None,
        "simulated": simulated if gpu else None,
        "sharing": row.sharing or None,
        "holders": [_holder_document(lease) for lease in row.holders],
    }


def _holder_document(lease: Lease) -> dict[str, str]:
    return {
        "node": lease.node,
        "cluster": lease.cluster,
        "engine": lease.engine,
        "status": lease.status,
        "sharing": lease.sharing,
    }


def render_change(change: GpuChange) -> str:
    """A line for people."""
    if change.holder is not None:
        verb = "taken by" if change.kind == "held" else "released by"
        return f"{_name(change)}: {verb} {fold_leases([change.holder], _where)}, {change.holder.sharing}"
    if change.kind in ("came", "gone"):
        return f"{_name(change)}: {_WORDS[change.kind]}"
    if change.kind == "silent":
        engine, _, why = change.text.partition(": ")
        return f"{engine} {_WORDS['silent']}: {why}"
    if change.kind == "answers":
        return f"{change.text} {_WORDS['answers']}"
    return f"{_WORDS[change.kind]}{': ' if change.kind == 'error' else ' '}{change.text}".rstrip(": ")


def _name(change: GpuChange) -> str:
    return f"GPU {change.label} {change.uuid}" if change.label else f"GPU {change.uuid}"


def changes_document(changes: Sequence[GpuChange], at: str) -> dict[str, Any]:
    """For programs, a document a line."""
    return {
        "version": 1,
        "schema": WATCH_SCHEMA,
        "at": at,
        "changes": [
            {
                "kind": change.kind,
                "uuid": change.uuid or None,
                "label": change.label or None,
                "holder": _holder_document(change.holder) if change.holder else None,
                "text": change.text or None,
            }
            for change in changes
        ],
    }
