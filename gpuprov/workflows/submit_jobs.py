"""`submit`: a command or a function of a project, as jobs of a cluster; holds no lock."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.host.order_check import NOTHING, judge_order
from gpuprov.host.outgoing_files import OutgoingProject
from gpuprov.planes.find_desk import find_desk
from gpuprov.spec.job_order import NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.planes.job_answers import Submitted
    from gpuprov.spec.job_order import SubmitOrder


@dataclass(frozen=True, kw_only=True)
class ProjectChoice:
    """The folder whose files go with the jobs; None for none.

    Attributes:
        folder: An absolute path.
        chosen: Whether the user named it; else it is the current folder.
    """

    folder: Path | None
    chosen: bool = False


def submit_jobs(
    connect: Callable[[], Driver],
    cluster: str,
    order: SubmitOrder,
    project: ProjectChoice,
    *,
    home: Path,
    reporter: Reporter,
) -> Submitted:
    """Check the order and its project on this host, copy the project into a node, and hand the jobs in there.

    Args:
        connect: Opens the engine, once nothing is wrong with the order.
        cluster: Name of the cluster.
        order: What is to be run.
        project: The folder that goes with it.
        home: The user's.
        reporter: Is told what goes on.

    Raises:
        UsageError: The order or the project is wrong, or the cluster takes no jobs; nothing was submitted.
        EngineError: The node or its plane refused.
        TimedOut: It did not end; the error says how to see whether it was submitted.
    """
    if not project.chosen:
        _refuse_home(project.folder, home)
    names = judge_order(order, project.folder)
    _warn_of_numbers(order, reporter)
    desk = find_desk(connect(), cluster, verb="gpuprov submit")
    with ExitStack() as until_submitted:
        place = None
        if project.folder is not None:
            outgoing = OutgoingProject(project.folder, names)
            with reporter.phase("copy"):
                place = until_submitted.enter_context(desk.holding(outgoing.tar()))
        try:
            with reporter.phase("submit"):
                return desk.submit(order, place)
        except KeyboardInterrupt:
            reporter.warn(name_cluster("see whether it was submitted: gpuprov jobs", cluster))
            raise


def _refuse_home(folder: Path | None, home: Path) -> None:
    """Nobody means all that they have by a project."""
    if folder is not None and folder.resolve() in (home.resolve(), *home.resolve().parents):
        raise UsageError(
            f"the current folder is no project; {NOTHING}",
            evidence=f"{folder} holds {home}",
            fix="cd into the project, name its folder with --project, or use none: gpuprov submit --no-project",
        )


def _warn_of_numbers(order: SubmitOrder, reporter: Reporter) -> None:
    if order.count is not None and order.count > 1 and not order.numbered:
        reporter.warn(f"all {order.count} runs are the same: {NUMBER}, the number of a run, is not used")
    if order.count is None and order.numbered:
        reporter.warn(f"{NUMBER} stays as it is: it becomes the number of a run with --count alone")
