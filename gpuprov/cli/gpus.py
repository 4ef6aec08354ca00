"""`gpuprov gpus`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import click

from gpuprov.cli import spanning
from gpuprov.cli.engine import gpu_mode_option
from gpuprov.cli.parameters import seconds_up_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.cluster.gpu_board import GpuBoard
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.shapes.choices import GpuMode
    from gpuprov.shapes.gpus import GpuChange

INTERVAL_S: Final = 2.0
LONGEST_INTERVAL_S: Final = 7 * 86400.0


@click.command()
@click.option(
    "--watch",
    "interval_s",
    type=float,
    is_flag=False,
    flag_value=INTERVAL_S,
    metavar="[SECONDS]",
    callback=seconds_up_to(LONGEST_INTERVAL_S),
    help=f"Repeat every N seconds (default {INTERVAL_S:g}) and report only changes, until Ctrl-C.",
)
@gpu_mode_option
@click.pass_obj
def command(session: Session, interval_s: float | None, gpu_mode: str | None) -> int:
    """Show the GPUs and their holders on all engines; changes nothing.

    Those of this machine if it has an engine, and of all hosts that were added. With --watch or --gpu-mode, those of
    this machine alone.
    """
    from gpuprov.cli.gpu_table import render_board
    from gpuprov.cluster.gpu_board import look_at_gpus
    from gpuprov.cluster.host_gpus import get_gpus
    from gpuprov.cluster.leases import Neighbours
    from gpuprov.cluster.told_gpus import tell_board

    neighbours = Neighbours(session.host)
    known = spanning.remembered_hosts() if interval_s is None and gpu_mode is None else {}
    if known:
        here = any(door.installed() for door in session.host.engines)
        own = look_at_gpus(get_gpus(session.host, "auto", reporter=session.reporter), neighbours) if here else None
        return _show_hosts(session, own, known)
    mode = cast("GpuMode", gpu_mode or "auto")
    gpus = get_gpus(session.host, mode, reporter=session.reporter)
    if interval_s is None:
        board = look_at_gpus(gpus, neighbours)
        session.show(tell_board(board, host=session.host.name), render_board(board, colour=session.colour))
        return 0
    _watch(session, interval_s, lambda: look_at_gpus(session.host.gpus(mode), neighbours))
    return 0


def _show_hosts(session: Session, own: GpuBoard | None, known: Mapping[str, RemoteMachine]) -> int:
    from gpuprov.cli.gpu_table import render_boards
    from gpuprov.cluster.told_gpus import tell_boards
    from gpuprov.spanning.hosts_hardware import gpus_over_hosts
    from gpuprov.spanning.parts.host_statuses import host_statuses
    from gpuprov.spanning.parts.over_hosts import part_error

    seen = gpus_over_hosts(known, spanning.way_to_hosts(session))
    boards = {**({session.host.name: own} if own else {}), **seen.boards}
    silences = seen.silences
    statuses = host_statuses(known, silences.failed, silences.away)
    document = tell_boards(boards, statuses, host=session.host.name)
    error = part_error(silences.failed, of=silences.asked)
    return spanning.show_result(session, document, render_boards(boards, colour=session.colour), error, 0)


def _watch(session: Session, interval_s: float, look: Callable[[], GpuBoard]) -> None:
    from gpuprov.cli.gpu_table import render_board, render_gpu_change
    from gpuprov.cli.session import moment
    from gpuprov.cluster.gpu_board import watch_gpus
    from gpuprov.cluster.told_gpus import tell_board
    from gpuprov.core.rounds import every
    from gpuprov.core.waiting import SystemClock
    from gpuprov.shapes.gpus import GpusWatch

    def first(board: GpuBoard) -> None:
        text = render_board(board, colour=session.colour)
        session.show_round(tell_board(board, host=session.host.name), text, at=moment())

    def tell(changes: Sequence[GpuChange]) -> None:
        at = moment()
        text = "\n".join(f"{at} {render_gpu_change(change)}" for change in changes)
        session.show_round(GpusWatch(at=at, host=session.host.name, changes=tuple(changes)), text, at=at)

    watch_gpus(look, rounds=every(interval_s, SystemClock()), first=first, tell=tell)
