"""`run` on this host: one command in a container of its own, with GPUs of its own."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gpuprov.cluster.build_image import find_built
from gpuprov.cluster.design import design_node
from gpuprov.cluster.held_gpus import leased_uuids
from gpuprov.cluster.host_gpus import get_gpus, with_offers
from gpuprov.cluster.images import get_named_image, node_recipe
from gpuprov.cluster.leases import Neighbours, is_orphan, read_leases
from gpuprov.cluster.placement import Place
from gpuprov.cluster.room import ask_limits
from gpuprov.cluster.services import init_of
from gpuprov.core.names import make_up_run_name, name_of_run, node_of_run
from gpuprov.core.process import describe_owner
from gpuprov.core.side_by_side import ask_side_by_side
from gpuprov.drivers.base import (
    LABEL_CLUSTER,
    LABEL_DETACHED,
    LABEL_GPUS,
    LABEL_IMAGE,
    LABEL_PROCESS,
    LABEL_ROLE,
    LABEL_SUBMITTER,
    ROLE_JOB,
    JobTerms,
)
from gpuprov.drivers.capabilities import require_capability
from gpuprov.gpu.allocate import allocate
from gpuprov.gpu.order import GpuDefault, resolve_order
from gpuprov.gpu.simulator import simulator_environment
from gpuprov.gpu.waiting_for_gpus import Turn, when_free
from gpuprov.lifecycle.run_record import note_runs, on_record
from gpuprov.lifecycle.runs import refuse_taken
from gpuprov.lifecycle.standalone_image import build_image
from gpuprov.machine.submitter import get_submitter
from gpuprov.roles.registry import PLAIN, check_spec
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec
from gpuprov.shapes.gpu_order import GpuOrder
from gpuprov.spec.variables import read_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from gpuprov.cluster.node_limits import GivenLimits
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeRequest, NodeState, Stream
    from gpuprov.gpu.allocate import Claims, LeaseRequest
    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.gpu.waiting_for_gpus import Patience
    from gpuprov.machine.base import Host
    from gpuprov.shapes.engine import ImageState
    from gpuprov.shapes.run_order import RunOrder

Result = TypeVar("Result")
JOBS: Final = "(jobs)"  # no cluster can have this name: a job belongs to none


def run_job(
    driver: Driver,
    order: RunOrder,
    host: Host,
    *,
    patience: Patience,
    write: Callable[[Stream, bytes], object],
    reporter: Reporter,
) -> int:
    """Run the command, hand on what it writes, and return its exit status; container and leases end with it.

    Jobs of processes that were killed are removed first: nobody hears what they say.

    Args:
        patience: How long to wait for GPUs that others hold.
        write: Gets what the command writes, as it comes, and which stream it is.
        reporter: Is told what goes on before the command starts.

    Raises:
        NotCapable: The engine has no jobs.
        UsageError: What is asked for cannot be, or the GPUs are taken; nothing was changed.
        TimedOut: The GPUs could not be had for as long as one was ready to wait.
    """

    def run(wanted: NodeRequest, started: Callable[[], object]) -> int:
        with ExitStack() as recorded:

            def began() -> None:
                started()
                recorded.enter_context(_recorded(driver, wanted, host, reporter))

            return driver.run_job(wanted, order.argv, started=began, write=write)

    return _run(driver, order, host, run, patience=patience, reporter=reporter)


def begin_job(driver: Driver, order: RunOrder, host: Host, *, patience: Patience, reporter: Reporter) -> str:
    """Start the command and leave it to the engine: container and lease stay until `run rm`. Returns its name.

    Raises:
        GpuprovError: As `run_job` says; nothing is left then.
    """

    def begin(wanted: NodeRequest, started: Callable[[], object]) -> str:
        driver.begin_job(wanted, order.argv)
        started()
        if wanted.labels.get(LABEL_GPUS):
            note_runs(driver, [wanted.name], host, reporter=reporter)
        return name_of_run(wanted.name)

    return _run(driver, order, host, begin, patience=patience, reporter=reporter)


def run_attached_job(
    driver: Driver,
    order: RunOrder,
    host: Host,
    *,
    patience: Patience,
    attach: Callable[[Sequence[str]], int],
    reporter: Reporter,
) -> int:
    """The same as `run_job` of a command that has this process's streams, or its terminal; returns its exit status.

    Args:
        attach: Runs a command line on this process's streams.

    Raises:
        GpuprovError: As `run_job` says.
    """
    with ExitStack() as recorded, ExitStack() as held:

        def hold(wanted: NodeRequest, started: Callable[[], object]) -> list[str]:
            held.callback(driver.delete_node, wanted.name)
            client = driver.hold_job(wanted, order.argv)
            started()  # its lease stands in the engine, and whose it is, too
            recorded.enter_context(_recorded(driver, wanted, host, reporter, held_s=time.time()))
            return client

        return attach(_run(driver, order, host, hold, patience=patience, reporter=reporter))


def _run(
    driver: Driver,
    order: RunOrder,
    host: Host,
    act: Callable[[NodeRequest, Callable[[], object]], Result],
    *,
    patience: Patience,
    reporter: Reporter,
) -> Result:
    """Have a container of the order made by `act`, which holds the host's lock until it says that the command runs."""
    require_capability(driver, "jobs")
    gpus = with_offers(driver, get_gpus(host, order.gpu_mode, reporter=reporter))
    turn = Turn(neighbours=Neighbours(host), engine=driver.name)
    request, limits = _lease_request(order, gpus), ask_limits(driver, host, nodes=1)
    job = _Job(order=order, spec=_spec(order), request=request, gpus=gpus, limits=limits)
    if order.name or order.published:  # whom neither GPUs nor an image will help need not wait for them
        refuse_taken(order, driver, driver.list_nodes(), host)

    def look() -> None:
        if patience.wait_s is None:
            job.decide(*_observe(driver, turn))

    image = _image(driver, order, host, gpus, before_build=look, reporter=reporter)

    def attempt(turn: Turn) -> Result:
        with ExitStack() as until_started:
            until_started.enter_context(host.lock(reporter))
            wanted = _prepare(driver, job, image, turn, host=host, reporter=reporter)

            def started() -> None:
                until_started.close()
                turn.end()

            return act(wanted, started)

    def try_on(turn: Turn) -> None:
        job.decide(driver.list_nodes(), turn.claims())

    return when_free(patience, turn, look=try_on, attempt=attempt, reporter=reporter)


def _recorded(
    driver: Driver, wanted: NodeRequest, host: Host, reporter: Reporter, *, held_s: float | None = None
) -> AbstractContextManager[None]:
    """For as long as one runs that goes with its command."""
    if not wanted.labels.get(LABEL_GPUS):
        return nullcontext()
    return on_record(driver, [wanted.name], host, reporter=reporter, held_s=held_s)


def _spec(order: RunOrder) -> ClusterSpec:
    """The job as the one node of a cluster, checked.

    Raises:
        SpecError: A variable or a mount is none.
    """
    nodes = NodesSpec(count=1, role=PLAIN.name, environment=order.environment, mounts=order.mounts)
    spec = ClusterSpec(nodes=nodes)
    check_spec(spec)
    return changed(spec, name=JOBS)


def _lease_request(order: RunOrder, host: HostGpus) -> LeaseRequest:
    """The GPUs: none where nothing is said of them, and of its own where nothing is said of sharing.

    Raises:
        UsageError: It is nonsense, names what is not there, or contradicts itself.
    """
    made_up = make_up_run_name()
    named = order.name or order.detach
    some = order.gpus != GpuOrder(per_node=order.gpus.per_node)
    default = GpuDefault(count=1 if some else 0, sharing="exclusive")
    node = node_of_run(order.name or made_up) if named else made_up
    return resolve_order(order.gpus, read_variables(order.environment), host, default, node=node)


@dataclass(frozen=True, kw_only=True)
class _Job:
    """The one node of a cluster that a job is, and what it requests of the host's GPUs."""

    order: RunOrder
    spec: ClusterSpec
    request: LeaseRequest
    gpus: HostGpus
    limits: Callable[[], GivenLimits]

    @property
    def terms(self) -> JobTerms:
        """How it runs."""
        order = self.order
        return JobTerms(
            detached=order.detach,
            restart=order.restart,
            tries=order.tries,
            user=order.user,
            published=order.published,
            unset=order.unset,
            reads=order.reads,
            terminal=order.terminal,
        )

    def decide(self, nodes: Sequence[NodeState], claims: Claims) -> tuple[Gpu, ...]:
        """The GPUs that it gets; what jobs of killed processes hold is free.

        Raises:
            UsageError: They are taken.
        """
        there = read_leases((node for node in nodes if not is_orphan(node)), engine=claims.engine)
        return allocate(self.gpus, there, [self.request], claims=claims)[self.request.node]

    def container(self, leased: tuple[Gpu, ...], claims: Claims, image: ImageState, *, host: str) -> NodeRequest:
        """What the driver needs to make its container with these GPUs."""
        place = Place(host=host, gpus=self.gpus, leases=(), claims=claims, limits=self.limits)
        sharing = self.request.sharing
        design = design_node(self.spec, self.request.node, attachments=(), gpus=leased, sharing=sharing, place=place)
        labels = {LABEL_ROLE: ROLE_JOB, LABEL_CLUSTER: JOBS, LABEL_IMAGE: image.name}
        labels |= {LABEL_DETACHED: "yes"} if self.order.detach else {}
        labels |= {LABEL_SUBMITTER: get_submitter(host).owner} if leased else {}
        wanted = design.request(image.id, labels={**labels, LABEL_PROCESS: describe_owner(os.getpid())})
        kernels = simulator_environment(simulated=design.access == "simulated")
        return replace(wanted, environment={**kernels, **wanted.environment}, terms=self.terms)


def _prepare(
    driver: Driver, job: _Job, image: ImageState, turn: Turn, *, host: Host, reporter: Reporter
) -> NodeRequest:
    """Under the host's lock: decide which GPUs it gets, and remove what killed processes left."""
    nodes, claimed = _observe(driver, turn)
    refuse_taken(job.order, driver, nodes, host)
    leased = job.decide(nodes, claimed)
    wanted = job.container(leased, claimed, image, host=host.name)
    _sweep(driver, nodes, host, reporter=reporter)
    if leased:
        reporter.note(f"{name_of_run(wanted.name)} has {', '.join(f'GPU {gpu.label} {gpu.uuid}' for gpu in leased)}")
    return wanted


def _observe(driver: Driver, turn: Turn) -> tuple[list[NodeState], Claims]:
    """This engine's nodes, and meanwhile what the others hold."""
    questions: list[Callable[[], Any]] = [driver.list_nodes, turn.claims]
    nodes, claimed = ask_side_by_side(questions, workers=2)
    return nodes, claimed


def _image(
    driver: Driver,
    order: RunOrder,
    host: Host,
    gpus: HostGpus,
    *,
    before_build: Callable[[], None],
    reporter: Reporter,
) -> ImageState:
    """The one that is named, or gpuprov's own; a build takes a minute, which who is refused need not wait for."""
    if order.image is not None:
        return get_named_image(driver, order.image)
    spec = ClusterSpec(nodes=NodesSpec(role=PLAIN.name))
    found = find_built(driver, node_recipe(spec, PLAIN.recipe, gpus, init=init_of(driver)))
    if found is None:
        before_build()
        found = build_image(driver, spec, host, gpus, reporter=reporter).image
    return found


def _sweep(driver: Driver, nodes: Sequence[NodeState], host: Host, *, reporter: Reporter) -> None:
    for node in nodes:
        if is_orphan(node):
            reporter.warn(f"removing {node.name}: the gpuprov run that it belonged to was killed")
            with on_record(driver, [node.name], host, reporter=reporter) if leased_uuids(node) else nullcontext():
                driver.delete_node(node.name)
