"""`program run`, `list`, `rm` and `page`: CUDA programs on tables, as jobs of a cluster or here; holds no lock."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, GpuprovError, TimedOut, UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.lifecycle.find_controller import count_gpus, get_controller
from gpuprov.project.outgoing_files import OutgoingProject
from gpuprov.project.program_check import check_program
from gpuprov.project.program_run import run_on_this_machine
from gpuprov.roles.work.node_contents import require_compiler
from gpuprov.roles.work.program_controller import ProgramController
from gpuprov.roles.work.queue_page import NodePage
from gpuprov.shapes.error import Error
from gpuprov.shapes.job_order import JobOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.core.waiting import Clock
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.roles.work.job_controller import JobController
    from gpuprov.shapes.program_runs import ProgramResult
    from gpuprov.shapes.programs import ListedProgram
    from gpuprov.spec.program_order import ProgramOrder

LOOK_S: Final = 1.0
PATIENCE_S: Final = 120.0  # for a node that is being restarted
ROUNDS: Final = 10  # looks between two at the jobs
_ENDED: Final = ("done", "failed", "cancelled", "lost")


def run_program(
    connect: Callable[[], Driver],
    cluster: str,
    order: ProgramOrder,
    *,
    reporter: Reporter,
    clock: Clock,
    person: str = "",
) -> tuple[str, ProgramResult]:
    """Check a program and its data here, copy them into a node, and have jobs of the cluster run it: their id and more.

    Args:
        connect: Opens the engine, once nothing is wrong with the program.
        cluster: Name of the cluster.
        order: What is asked for.
        reporter: Is told what goes on.
        clock: Where time comes from.
        person: For whom the user acts; empty for nobody.

    Raises:
        UsageError: The program or the data are wrong, or the cluster takes no jobs; nothing was submitted.
        ProgramFailed: And why.
        EngineError: The node or its role refused, or the workers were lost.
    """
    with reporter.phase("check"):
        checked, program = check_program(order)
    for words in checked.left_out:
        reporter.warn(f"not checked on this host: {words}")
    driver = connect()
    verb = f"gpuprov program run {shlex.quote(str(order.program))}"
    controller = get_controller(driver, cluster, verb=verb, person=person)
    programs = ProgramController.beside(controller)
    workers = order.workers or count_gpus(driver, cluster)
    controller.accepted(JobOrder(gpus=1))
    room = controller.find_room()
    if room is not None and order.workers:
        room.require_side_by_side(order.workers)
    require_compiler(controller)
    run = _prepare(programs, order, checked.files, workers, reporter)
    command = programs.work_command(run)
    with _dropped_unless_submitted(programs, run), reporter.phase("submit"):
        submitted = controller.submit(JobOrder(command=command, name=program.name, count=workers, gpus=1), None)
    reporter.note(f"{workers} workers: jobs {submitted.id}")
    try:
        with reporter.phase("iterate"):
            result = _wait(controller, programs, run, submitted.id, reporter=reporter, clock=clock)
    except KeyboardInterrupt:
        reporter.warn(f"cancelling jobs {submitted.id}")
        try:
            controller.cancel([submitted.id])
        finally:
            programs.drop(run)
        raise
    return submitted.id, result


def _prepare(
    programs: ProgramController, order: ProgramOrder, files: Sequence[str], workers: int, reporter: Reporter
) -> str:
    """Copy a program and its data into the node, and have a run prepared there: its folder."""
    with ExitStack() as until_prepared:
        with reporter.phase("copy"):
            place = until_prepared.enter_context(programs.holding(OutgoingProject(order.program, files).tar()))
            data = None
            if order.data is not None:
                tar = OutgoingProject(order.data.parent, [order.data.name]).tar()
                data = until_prepared.enter_context(programs.holding(tar))
        with reporter.phase("prepare"):
            return programs.prepare(order, place, data, workers=workers)


@contextmanager
def _dropped_unless_submitted(programs: ProgramController, run: str) -> Iterator[None]:
    """Have the data and the key of a run removed if the block fails: no job will do that."""
    try:
        yield
    except (GpuprovError, KeyboardInterrupt):
        with suppress(GpuprovError):
            programs.drop(run)
        raise


def run_program_here(order: ProgramOrder, *, gpus: HostGpus | None, reporter: Reporter) -> ProgramResult:
    """Run a program on this machine.

    Args:
        order: What is asked for.
        gpus: Of this machine, if known.
        reporter: Is told what goes on.

    Raises:
        UsageError: The program or the data are wrong.
        HostNotReady: This machine lacks what is needed.
        ProgramFailed: And why.
        EngineError: The node or its role refused, or the workers were lost.
    """
    with reporter.phase("iterate"):
        return run_on_this_machine(order, gpus, python=sys.executable)


def _wait(
    controller: JobController, programs: ProgramController, run: str, job: str, *, reporter: Reporter, clock: Clock
) -> ProgramResult:
    """The result, as soon as the run has ended.

    Raises:
        ProgramFailed: And why.
        EngineError: Its jobs ended without a result.
    """
    heard_s, rounds = clock.now_s(), 0
    while True:
        try:
            ended = rounds % ROUNDS == ROUNDS - 1 and all(one.state in _ENDED for one in controller.show([job]).jobs)
            look = programs.look(run)
        except (EngineError, TimedOut) as error:
            if clock.now_s() - heard_s > PATIENCE_S:
                raise
            reporter.warn(f"{error.what}; asking again")
            clock.sleep(LOOK_S)
            continue
        heard_s = clock.now_s()
        if isinstance(look.end, Error):
            raise programs.as_error(look.end.error)
        if look.end is not None:
            return look.end
        if ended:
            with suppress(GpuprovError):
                programs.drop(run)
            raise _without_result(controller, job)
        reporter.node(job, f"{look.progress.iterations} iterations" if look.progress else "waits for workers")
        rounds += 1
        clock.sleep(LOOK_S)


def _without_result(controller: JobController, job: str) -> EngineError:
    jobs = controller.show([job]).jobs
    shown = "; ".join(f"{one.id} {one.state}: {one.reason or 'no reason'}" for one in jobs[:5])
    job = jobs[0].id if jobs else job
    return EngineError(
        "the jobs of the run ended without a result",
        evidence=shown,
        fix=controller.named(f"gpuprov jobs logs {job}"),
    )


def list_programs(driver: Driver, cluster: str, *, person: str = "") -> tuple[ListedProgram, ...]:
    """All programs that are registered in a cluster, or that somebody has there."""
    controller = get_controller(driver, cluster, verb="gpuprov program list", person=person)
    return ProgramController.beside(controller).programs()


def remove_program(driver: Driver, cluster: str, program: str, *, person: str = "") -> ListedProgram:
    """Remove a registered program with all that was built of it.

    Raises:
        UsageError: There is none of that hash, or it is in use.
    """
    verb = f"gpuprov program rm {shlex.quote(excerpt(program))}"
    return ProgramController.beside(get_controller(driver, cluster, verb=verb, person=person)).remove(program)


def get_run_page(driver: Driver, cluster: str, *, person: str = "") -> NodePage:
    """Dask's page of the run that is under way; of several, of the one that began last.

    Raises:
        UsageError: No run goes on, or Dask has no page.
    """
    controller = get_controller(driver, cluster, verb="gpuprov program page", person=person)
    page = ProgramController.beside(controller).page()
    if page is None:
        raise UsageError(
            f"no run of a program with a page is under way in cluster {cluster}",
            evidence="a run has Dask's page while its workers are connected",
            fix=controller.named("gpuprov jobs"),
        )
    return NodePage(node=page.node, port=page.port, fix=controller.named("gpuprov jobs"))
