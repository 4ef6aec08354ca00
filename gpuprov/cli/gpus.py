"""`gpuprov gpus`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import click

from gpuprov.cli.engine import gpu_mode_option
from gpuprov.cli.parameters import seconds_up_to
from gpuprov.cli.show_result import show_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session
    from gpuprov.cluster.gpu_board import GpuBoard
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
    from gpuprov.cli.gpu_table import render_board, render_boards
    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.cluster.told_gpus import board_of, tell_board, tell_boards
    from gpuprov.fleet.host_statuses import host_statuses
    from gpuprov.fleet.questions.gpus import GPUS
    from gpuprov.shapes.orders import GpusOrder

    mode = cast("GpuMode", gpu_mode or "auto")
    if interval_s is not None:
        _watch(session, interval_s, mode)
        return 0
    fleet = open_fleet(session, here_alone=gpu_mode is not None)
    told = fleet.ask(GPUS, GpusOrder(mode=mode))
    told.require_answer()
    boards = {host: board_of(board) for host, board in told.answers.items()}
    if fleet.others:
        hosts = host_statuses(fleet.others, told.failed, told.away)
        document = tell_boards(boards, hosts, host=session.host.name)
        return show_result(session, document, render_boards(boards, screen=session.screen), told.error, 0)
    (board,) = boards.values()
    session.show(tell_board(board, host=session.host.name), render_board(board, screen=session.screen))
    return 0


def _watch(session: Session, interval_s: float, mode: GpuMode) -> None:
    from gpuprov.cli.gpu_table import render_board, render_gpu_change
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
