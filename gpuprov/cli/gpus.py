"""What there is to compute with: gpus, hardware, and the table of GPUs, which `host show` shows too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import cluster_option, engine_option, gpu_mode_option, is_typed, typed_gpu_option
from gpuprov.cli.options import seconds_up_to
from gpuprov.cli.tables import PIPE, Screen, render_table
from gpuprov.core.names import fold
from gpuprov.core.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.cluster.gpu_board import GpuBoard, GpuRow
    from gpuprov.core.outcome import Outcome
    from gpuprov.fleet.fleet import Fleet, FleetAnswers
    from gpuprov.gpu.allocate import Lease
    from gpuprov.gpu.lost import LostGpu
    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.shapes.choices import GpuMode
    from gpuprov.shapes.gpus import GpuChange, Holder
    from gpuprov.shapes.hardware import Hardware, HostHardware, Machine, NodeHardware

INTERVAL_S: Final = 2.0
LONGEST_INTERVAL_S: Final = 7 * 86400.0
_HARDWARE: Final = ("MACHINE", "PROCESSOR", "THREADS", "GPU", "CC", "MULTIPROCESSORS", "BLOCK SIZE", "REASON")
_HARDWARE_SPARE: Final = ("MULTIPROCESSORS", "BLOCK SIZE", "THREADS")
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


@command(
    click.option(
        "--watch",
        "interval_s",
        type=float,
        is_flag=False,
        flag_value=INTERVAL_S,
        metavar="[SECONDS]",
        callback=seconds_up_to(LONGEST_INTERVAL_S),
        help=f"Repeat every N seconds (default {INTERVAL_S:g}) and report only changes, until Ctrl-C.",
    ),
    gpu_mode_option,
)
def gpus(session: Session, interval_s: float | None, gpu_mode: str | None) -> Result | None:
    """Show the GPUs and their holders on all engines; changes nothing.

    Those of this machine if it has an engine, and of all hosts that were added. With --watch, --gpu-mode or
    --gpu-profile, those of this machine alone. A narrow terminal gets the columns that fit.
    """
    from gpuprov.cli.session import open_fleet
    from gpuprov.cluster.told_gpus import board_of, tell_board, tell_boards
    from gpuprov.fleet.host_statuses import host_statuses
    from gpuprov.fleet.questions.gpus import GPUS
    from gpuprov.shapes.orders import GpusOrder

    mode = cast("GpuMode", gpu_mode or "auto")
    if interval_s is not None:
        _watch(session, interval_s, mode)
        return None
    fleet = open_fleet(session, here_alone=bool(typed_gpu_option(session, gpu_mode)))
    told = fleet.ask(GPUS, GpusOrder(mode=mode))
    told.require_answer()
    boards = {host: board_of(board) for host, board in told.answers.items()}
    if fleet.others:
        hosts = host_statuses(fleet.known, told.failed, told.away)
        document = tell_boards(boards, hosts, host=session.host.name)
        return Result(document=document, text=render_boards(boards, screen=session.screen), error=told.error)
    (board,) = boards.values()
    text = render_board(board, screen=session.screen)
    return Result(document=tell_board(board, host=session.host.name), text=text)


def _watch(session: Session, interval_s: float, mode: GpuMode) -> None:
    from gpuprov.cli.session import moment
    from gpuprov.cluster.gpu_board import look_at_gpus, watch_gpus
    from gpuprov.cluster.host_gpus import get_gpus
    from gpuprov.cluster.leases import Neighbours
    from gpuprov.cluster.told_gpus import tell_board
    from gpuprov.core.rounds import every
    from gpuprov.core.waiting import SystemClock
    from gpuprov.shapes.gpus import GpusWatch

    neighbours = Neighbours(session.host)
    get_gpus(session.host, mode, reporter=session.reporter)  # which says once that they are simulated, or lost

    def look() -> GpuBoard:
        return look_at_gpus(session.host.gpus(mode), neighbours)

    def first(board: GpuBoard) -> None:
        text = render_board(board, screen=session.screen)
        session.show_round(tell_board(board, host=session.host.name), text, at=moment())

    def tell(changes: Sequence[GpuChange]) -> None:
        at = moment()
        text = "\n".join(f"{at} {render_gpu_change(change)}" for change in changes)
        session.show_round(GpusWatch(at=at, host=session.host.name, changes=tuple(changes)), text, at=at)

    watch_gpus(look, rounds=every(interval_s, SystemClock()), first=first, tell=tell)


@command(
    click.option(
        "--write", is_flag=True, help="Write /etc/cdi/gpuprov.json, which Docker and podman read. Needs root."
    ),
    gpu_mode_option,
)
def cdi(session: Session, *, write: bool, gpu_mode: str | None) -> Result | Outcome:
    """Print this host's GPUs as a specification of CDI, the Container Device Interface.

    Names of devices are indexes, UUIDs and `all`, of the kind nvidia.com/gpu; of simulated GPUs, gpuprov.sim/gpu.
    """
    from gpuprov.cluster.host_gpus import get_gpus
    from gpuprov.core.outcome import Outcome
    from gpuprov.gpu.access import CDI_FILE
    from gpuprov.gpu.cdi_spec import make_cdi_spec, render_cdi_spec
    from gpuprov.machine.cdi_file import write_cdi_file
    from gpuprov.shapes.cdi import Cdi

    host = get_gpus(session.host, cast("GpuMode", gpu_mode or "auto"), reporter=session.reporter)
    spec = make_cdi_spec(host)
    if write:
        return Outcome(changed=write_cdi_file(session.host.root, spec))
    document = Cdi(host=session.host.name, file=f"/{CDI_FILE}", simulated=host.simulated, spec=spec)
    return Result(document=document, text=render_cdi_spec(spec))


@command(cluster_option, engine_option)
def hardware(session: Session) -> Result:
    """Show the processors and GPUs of this host and of the cluster's running nodes, as CUDA's driver reports them.

    If hosts were added, also those of the hosts, and of the nodes on them, unless the cluster is on this machine alone.
    --engine shows those of this machine alone.

    BLOCK SIZE is a number of threads for a block that suits most kernels.
    """
    from msgspec import UNSET

    from gpuprov.fleet.questions.hardware import HARDWARE
    from gpuprov.shapes.hardware import Hardware
    from gpuprov.shapes.orders import HardwareOrder

    fleet = session.fleet.of_cluster(session.cluster)
    told = fleet.ask(HARDWARE, HardwareOrder(cluster=session.cluster, engine=session.engine or ""))
    if fleet.name_here in told.failed:
        raise told.failed[fleet.name_here]
    own = told.answers[fleet.name_here].hardware
    rows = [*_rows(own.machine, own)]
    for host, found in told.answers.items():
        rows += [] if host == fleet.name_here else _rows(host, found.hardware)
        rows += _rows_of_nodes(found.nodes)
    nodes = tuple(node for found in told.answers.values() for node in found.nodes)
    document = Hardware(
        host=session.host.name, hardware=own, nodes=nodes, hosts=_hosts(fleet, told) if fleet.others else UNSET
    )
    if not nodes and is_typed("cluster"):
        _warn_of_missing(session)
    return Result(document=document, text=render_hardware(rows, screen=session.screen), error=told.error)


def _warn_of_missing(session: Session) -> None:
    """Say that the cluster that was typed does not exist, or that its nodes are stopped."""
    from gpuprov.fleet.clusters import explain_missing

    missing = explain_missing(session.fleet, session.cluster, verb="gpuprov cluster status")
    words = f"{missing.what}; {missing.evidence}" if missing else f"no node of cluster {session.cluster} is running"
    session.reporter.warn(words)


def render_hardware(rows: Sequence[tuple[Any, ...]], *, screen: Screen = PIPE) -> str:
    """A line for each GPU of each machine; at a terminal, a reason that several machines have is said once, below."""
    if screen.columns is None:
        return render_table(_HARDWARE, rows, screen=screen)
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row[-1]:
            reasons.setdefault(str(row[-1]), []).append(str(row[0]))
    table = render_table(_HARDWARE[:-1], [row[:-1] for row in rows], screen=screen, spare=_HARDWARE_SPARE)
    return "\n".join([table, *(f"{fold(machines)}: {reason}" for reason, machines in reasons.items())])


def _hosts(fleet: Fleet, told: FleetAnswers[Hardware]) -> tuple[HostHardware, ...]:
    from msgspec import structs

    from gpuprov.fleet.host_statuses import host_statuses
    from gpuprov.shapes.hardware import HostHardware

    machines = {host: found.hardware for host, found in told.answers.items()}
    statuses = host_statuses(fleet.known, told.failed, told.away)
    return tuple(HostHardware(**structs.asdict(one), hardware=machines.get(one.name)) for one in statuses)


def _rows_of_nodes(nodes: Sequence[NodeHardware]) -> Iterator[tuple[Any, ...]]:
    for one in nodes:
        yield from _rows(one.node, one.hardware) if one.hardware else [(one.node, *[None] * 6, one.reason)]


def _rows(name: str, machine: Machine) -> Iterator[tuple[Any, ...]]:
    own = (name, machine.cpu, machine.threads)
    if not machine.gpus:
        yield (*own, *[None] * 4, machine.reason)
    for gpu in machine.gpus:
        shown = f"{'SIMULATED ' if machine.simulated else ''}{gpu.name or gpu.uuid}"
        numbers = (gpu.compute_capability, gpu.multiprocessors, gpu.block_size_hint)
        yield (*own, shown, *numbers, None if gpu.name else machine.reason)


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
    return f"; held by {_fold(held)}" if held else ""


def _cells(row: GpuRow, host: HostGpus, unheld: str) -> tuple[object, ...]:
    holders = _fold(row.holders)
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
        part = gpu.mig[0]
        return f"{part.profile} gi{part.gpu_instance}/ci{part.compute_instance}".lstrip()
    return "no instances" if gpu.mig_enabled else "off"


def _fold(leases: Sequence[Lease | Holder]) -> str:
    from gpuprov.gpu.allocate import fold_leases

    return fold_leases(leases, _where)


def _where(lease: Lease | Holder) -> str:
    said = [lease.engine, lease.cluster, "" if lease.status == "running" else lease.status]
    return " ".join(part for part in said if part)


def render_gpu_change(change: GpuChange) -> str:
    """A line for people."""
    if change.holder is not None:
        verb = "taken by" if change.kind == "held" else "released by"
        return f"{_name(change)}: {verb} {_fold([change.holder])}, {change.holder.sharing}"
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
