"""`anneal run`: models of the user's own, as jobs of a cluster or on this machine; holds no lock."""

from __future__ import annotations

import secrets
import shlex
import sys
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.assets import get_asset
from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.core.execution import run_attached
from gpuprov.gpu.simulator import simulator_environment
from gpuprov.lifecycle.find_controller import count_gpus, get_controller
from gpuprov.project.anneal_check import check_anneal
from gpuprov.project.annealed_files import make_place, only_results, refuse_old_results
from gpuprov.project.incoming_files import IncomingFiles
from gpuprov.project.local_packages import local_environment
from gpuprov.project.order_check import ask_here
from gpuprov.project.outgoing_files import OutgoingProject
from gpuprov.roles.work.anneal_controller import AnnealController, part_command
from gpuprov.shapes.anneal import AnnealRun, AnnealShown
from gpuprov.shapes.base import read
from gpuprov.shapes.job_order import JobOrder
from gpuprov.spec.anneal_order import check_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuprov.core.reporter import Reporter
    from gpuprov.core.waiting import Clock
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.roles.work.job_controller import JobController
    from gpuprov.shapes.anneal import Run
    from gpuprov.shapes.jobs import Job
    from gpuprov.spec.anneal_order import AnnealOrder

LOOK_S: Final = 3  # that a look at the jobs waits for their end
PATIENCE_S: Final = 120.0  # for a node that is being restarted
RETRY_S: Final = 5.0
_MOST_TITLE: Final = 40
# The program finds its package first, and what lies beside that package is no part of the user's program
_LOCAL: Final = (
    "import sys; sys.path[0] = sys.argv.pop(1); from gpuwork.anneal.cli import main; del sys.path[0]; "
    "sys.exit(main(sys.argv[1:]))"
)


def anneal_in_cluster(  # noqa: PLR0913  (what is asked for, and who is told)
    connect: Callable[[], Driver],
    cluster: str,
    order: AnnealOrder,
    *,
    nodes: int | None,
    out: Path,
    reporter: Reporter,
    clock: Clock,
    person: str = "",
) -> AnnealRun:
    """Check models on this host, submit their parts as jobs, follow these, and get what they found.

    Args:
        connect: Opens the engine, once nothing is wrong with the models.
        cluster: Name of the cluster.
        order: What is to be annealed.
        nodes: Into how many parts the chains are divided; None: one for each GPU that running nodes hold.
        out: A new folder of this machine for the results.
        reporter: Is told what goes on.
        clock: Where time comes from.
        person: For whom the user acts; empty for nobody.

    Raises:
        UsageError: The models or what is asked for is wrong, or the cluster takes no jobs; nothing was submitted.
        EngineError: The node or its role refused.
        TimedOut: A step did not end.
    """
    check_nodes(nodes)
    check_anneal(order, to_run=True)
    refuse_old_results(out)
    driver = connect()
    verb = f"gpuprov anneal run {shlex.quote(str(order.models[0]))}"
    controller = get_controller(driver, cluster, verb=verb, person=person)
    controller.accepted(_job_order(order, "", 1))
    parts = nodes or count_gpus(driver, cluster)
    anneal = AnnealController.beside(controller)
    folder = anneal.store_of(f"{order.models[0].stem[:_MOST_TITLE]}-{secrets.token_hex(6)}")
    with ExitStack() as until_prepared:
        staged = until_prepared.enter_context(_staged(order))
        with reporter.phase("copy"):
            place = until_prepared.enter_context(anneal.holding(OutgoingProject(staged, _names(order)).tar()))
        with reporter.phase("prepare"):
            arguments = order.arguments(*(tuple(f"{place}/{name}" for name in names) for names in _staged_names(order)))
            prepared = anneal.prepare(arguments, folder, parts=parts, project=place)
    job = _submit(controller, order, folder, prepared.parts, reporter)
    reporter.note(f"submitted {job}")
    try:
        jobs = _follow(controller, anneal, folder, job, reporter=reporter, clock=clock)
    except KeyboardInterrupt:
        reporter.warn(controller.describe_left(job))
        raise
    failed = [one for one in jobs if one.state != "done"]
    for one in failed:
        reporter.warn(f"job {one.id} {one.state}: {one.reason or 'the reason is unknown'}")
    results = _gather(anneal, folder, out, frozenset(run.name for run in prepared.runs), reporter=reporter)
    runs = anneal.look(folder, with_series=True)
    is_good = not failed and all(run.state == "done" and not run.errors for run in runs)
    told = None if results is None else str(results)
    return AnnealRun(cluster=cluster, job=job, folder=told, exit_code=0 if is_good else 1, runs=runs)


def anneal_here(order: AnnealOrder, *, out: Path, gpus: HostGpus, quiet: bool) -> AnnealRun:
    """Anneal models on the GPUs of this machine, in this process's terminal.

    Args:
        order: What is to be annealed.
        out: A new folder for the results.
        gpus: Of this machine; where they are simulated, numba's simulator runs the kernels.
        quiet: Whether stdout belongs to the caller's output.

    Raises:
        UsageError: The models or what is asked for is wrong; nothing was run.
        HostNotReady: This machine lacks packages; nothing was run.
    """
    environment = {**simulator_environment(simulated=gpus.simulated), **local_environment(gpus)}
    check_anneal(order, to_run=True, here=environment)
    refuse_old_results(out)
    had_place = out.parent.exists()
    words = [f"{name}={value}" for name, value in environment.items()]
    program = [sys.executable, "-c", _LOCAL, str(get_asset("gpuwork").parent), "run", *order.here, "--out", str(out)]
    code = run_attached(["env", *words, *program], stdout_to_stderr=quiet)
    if not (out / "runs.json").exists():
        if not had_place:
            with suppress(OSError):  # somebody else may use it by now
                out.parent.rmdir()
        return AnnealRun(folder=None, exit_code=code, runs=())
    told = ask_here(("-m", "gpuwork.anneal", "show", str(out), "--series"))
    try:
        runs = read(AnnealShown, told).runs
    except ValueError as error:
        raise EngineError("the results cannot be read", evidence=str(error), fix=f"ls -lR {out}") from error
    return AnnealRun(folder=str(out), exit_code=code, runs=runs)


def _staged_names(order: AnnealOrder) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What models and configurations are called while they are copied: they keep their names, which may be equal."""
    models = tuple(f"models/{number}/{path.name}" for number, path in enumerate(order.models))
    return models, tuple(f"configurations/{number}/{path.name}" for number, path in enumerate(order.configurations))


def _names(order: AnnealOrder) -> tuple[str, ...]:
    models, configurations = _staged_names(order)
    return (*models, *configurations)


@contextmanager
def _staged(order: AnnealOrder) -> Iterator[Path]:
    """Copies of models and configurations in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="gpuprov-anneal-") as folder:
        for name, path in zip(_names(order), (*order.models, *order.configurations), strict=True):
            place = Path(folder, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
        yield Path(folder)


def _submit(controller: JobController, order: AnnealOrder, folder: str, parts: int, reporter: Reporter) -> str:
    try:
        with reporter.phase("submit"):
            return controller.submit(_job_order(order, folder, parts), None).id
    except KeyboardInterrupt:
        reporter.warn(controller.named("see whether it was submitted: gpuprov jobs"))
        raise


def _job_order(order: AnnealOrder, folder: str, parts: int) -> JobOrder:
    """A job for each part."""
    title = f"anneal-{order.models[0].stem[:_MOST_TITLE]}"
    return JobOrder(name=title, command=part_command(folder), count=parts)


def _follow(
    controller: JobController, anneal: AnnealController, folder: str, job: str, *, reporter: Reporter, clock: Clock
) -> tuple[Job, ...]:
    """The jobs, as soon as all have ended; better values are told meanwhile."""
    told: dict[str, float] = {}
    heard_s = clock.now_s()
    with reporter.phase("anneal"):
        while True:
            try:
                jobs = controller.wait([job], limit_s=LOOK_S)
                _tell_bests(anneal.look(folder), told, reporter)
            except (EngineError, TimedOut) as error:
                if clock.now_s() - heard_s > PATIENCE_S:
                    raise
                reporter.warn(f"{error.what}; asking again")
                clock.sleep(RETRY_S)
                continue
            heard_s = clock.now_s()
            if jobs is not None:
                return jobs


def _tell_bests(runs: tuple[Run, ...], told: dict[str, float], reporter: Reporter) -> None:
    """Say the best value of each run whenever it is better."""
    for run in runs:
        if run.best is not None and (run.name not in told or run.best < told[run.name]):
            told[run.name] = run.best
            step = max((part.step for part in run.parts), default=0)
            ended = sum(part.state == "done" for part in run.parts)
            reporter.note(f"{run.name}: best {run.best:.9g} at step {step}, {ended} of {len(run.parts)} parts done")


def _gather(
    anneal: AnnealController, folder: str, out: Path, names: frozenset[str], *, reporter: Reporter
) -> Path | None:
    """Merge the runs whose parts have all ended, and copy their results into a new folder; None where there is none."""
    if not any(all(part.state == "done" for part in run.parts) for run in anneal.look(folder)):
        return None
    with reporter.phase("merge"):
        whole = names & {run.name for run in anneal.merge(folder) if run.state == "done"}
    for name in sorted(names - whole):
        reporter.warn(f"{name} has no result")
    with reporter.phase("fetch"):
        make_place(out)
        wants = only_results(whole)
        with IncomingFiles(node=anneal.node, path=folder, kind="folder", target=out, wants=wants) as incoming:
            anneal.driver.read_tree(anneal.node, folder, incoming.take)
    if incoming.left_out_words:
        reporter.warn(incoming.left_out_words)
    return out
