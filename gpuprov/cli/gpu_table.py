"""What `gpus` says to people: a table, and a line for each change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli.tables import PIPE, render_table
from gpuprov.core.units import GIB
from gpuprov.gpu.allocate import fold_leases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cli.tables import Screen
    from gpuprov.cluster.gpu_board import GpuBoard, GpuRow
    from gpuprov.gpu.allocate import Lease
    from gpuprov.gpu.lost import LostGpu
    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.shapes.gpus import GpuChange, Holder

_HEADERS = ("GPU", "MODEL", "MEMORY", "MINOR", "PCI", "MIG", "DRIVER", "UUID", "SHARING", "HELD BY")
_SPARE = ("UUID", "PCI", "DRIVER", "MINOR", "MIG", "MEMORY")
_WORDS = {
    "came": "appeared",
    "gone": "disappeared",
    "error": "the GPUs cannot be read",
    "recovered": "the GPUs can be read again",
    "driver": "driver is now",
    "silent": "does not respond; the GPUs that it holds are unknown",
    "answers": "responds again",
}


def render_board(board: GpuBoard, *, screen: Screen = PIPE) -> str:
    """One line for each GPU, then who waits and who does not answer."""
    unheld = "unknown" if board.silent else "free"
    rows = [_cells(row, board.host, unheld) for row in board.rows]
    lines = [render_table(_HEADERS, rows, screen=screen, spare=_SPARE) if rows else f"no GPUs: {board.host.reason}"]
    return "\n".join([*lines, *_said_besides(board)])


def render_boards(boards: Mapping[str, GpuBoard], *, screen: Screen = PIPE) -> str:
    """The same of several hosts, each line with its host."""
    rows: list[tuple[object, ...]] = []
    lines: list[str] = []
    for host, board in boards.items():
        unheld = "unknown" if board.silent else "free"
        rows += [(host, *_cells(row, board.host, unheld)) for row in board.rows]
        lines += [f"{host}: {line}" for line in _said_besides(board)]
        lines += [] if board.rows else [f"{host}: no GPUs: {board.host.reason}"]
    return "\n".join(
        [*([render_table(("HOST", *_HEADERS), rows, screen=screen, spare=_SPARE)] if rows else ()), *lines]
    )


def _said_besides(board: GpuBoard) -> list[str]:
    lines = [f"LOST: {gpu}{_holders_of(gpu, board)}" for gpu in board.host.lost]
    lines += [str(use) for use in board.foreign]
    lines += [f"waiting: {who}" for who in board.waiting]
    lines += [
        f"{engine} does not respond; the GPUs that it holds are unknown: {error.what}"
        for engine, error in board.silent.items()
    ]
    return lines


def _holders_of(gpu: LostGpu, board: GpuBoard) -> str:
    held = [lease for lease in board.leases if gpu.uuid and gpu.uuid in lease.gpus]
    return f"; held by {fold_leases(held, _where)}" if held else ""


def _cells(row: GpuRow, host: HostGpus, unheld: str) -> tuple[object, ...]:
    holders = fold_leases(row.holders, _where)
    gpu = row.gpu
    if gpu is None:
        lost = any(gpu.uuid == row.uuid for gpu in host.lost)
        return (
            "",
            "(lost)" if lost else "(not on this host)",
            "",
            "",
            "",
            "",
            "",
            row.uuid,
            row.sharing or "",
            holders,
        )
    memory = "" if gpu.memory_bytes is None else f"{gpu.memory_bytes / GIB:.1f} GiB"
    return (
        *(gpu.label, gpu.model, memory, gpu.minor, gpu.pci, _mig_word(gpu), host.driver_version),
        *(row.uuid, row.sharing or unheld, holders),
    )


def _mig_word(gpu: Gpu) -> str:
    if gpu.is_mig_instance:
        return f"gi{gpu.mig[0].gpu_instance}/ci{gpu.mig[0].compute_instance}"
    return "no instances" if gpu.mig_enabled else "off"


def _where(lease: Lease | Holder) -> str:
    said = [lease.engine, lease.cluster, "" if lease.status == "running" else lease.status]
    return " ".join(part for part in said if part)


def render_gpu_change(change: GpuChange) -> str:
    """A line for people."""
    if change.holder is not None:
        verb = "taken by" if change.kind == "held" else "released by"
        return f"{_name(change)}: {verb} {fold_leases([change.holder], _where)}, {change.holder.sharing}"
    if change.kind in ("came", "gone"):
        return f"{_name(change)}: {_WORDS[change.kind]}"
    text = change.text or ""
    if change.kind == "silent":
        engine, _, why = text.partition(": ")
        return f"{engine} {_WORDS['silent']}: {why}"
    if change.kind == "answers":
        return f"{text} {_WORDS['answers']}"
    return f"{_WORDS[change.kind]}{': ' if change.kind == 'error' else ' '}{text}".rstrip(": ")


def _name(change: GpuChange) -> str:
    return f"GPU {change.label} {change.uuid}" if change.label else f"GPU {change.uuid}"
