"""`cluster up`: bring a cluster to what its spec says, changing only what differs, and prove its nodes."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.files import planned_members
from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.cluster.host_gpus import get_gpus, with_offers
from gpuprov.cluster.leases import Neighbours
from gpuprov.cluster.networks import isolate_networks, networks_created, record_host_ports, record_labels
from gpuprov.cluster.nodes import (
    NodeRun,
    boot_nodes,
    create_nodes,
    delete_nodes,
    ensure_seed,
    image_labels,
    renew_orders,
    repair_nodes,
)
from gpuprov.cluster.observed import observe
from gpuprov.cluster.plan import beyond_record
from gpuprov.cluster.replacements import read_replacements
from gpuprov.cluster.state import observe_cluster, observe_engine
from gpuprov.cluster.whole import recorded_whole
from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.names import name_cluster
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import AGAIN, Rollback
from gpuprov.drivers.base import LABEL_SPEC
from gpuprov.lifecycle.changing import changing, read_cluster, read_steadily
from gpuprov.lifecycle.cluster_plan import PlanOrder, plan_up
from gpuprov.lifecycle.files import find_stale, gather_files, renewal_lines
from gpuprov.lifecycle.image_age import older_lines, older_notes
from gpuprov.lifecycle.leaving import SPARE_JOBS, leaving, refuse_busy
from gpuprov.lifecycle.out_of_service import find_abandoned
from gpuprov.lifecycle.people import login_notes
from gpuprov.lifecycle.renew import renew_nodes
from gpuprov.lifecycle.replacing import arrivals_of, end_replacing, mend_replacing, refuse_lost_queue
from gpuprov.lifecycle.rows import found_rows
from gpuprov.lifecycle.verify import after_up, verify_cluster
from gpuprov.roles.crew import RESUMED, without_started
from gpuprov.roles.registry import ROLES, check_spec, role_of, settle
from gpuprov.spec.serialize import dump_spec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuprov.cluster.shrinking import Shrinking
    from gpuprov.cluster.state import ClusterState, EngineState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.lifecycle.cluster_plan import UpPlan
    from gpuprov.lifecycle.files import FileSet, Reading
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.machine.base import Host
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.nodes import NodeRow
    from gpuprov.shapes.verify import Report
    from gpuprov.shapes.whole import Member


@dataclass(frozen=True, kw_only=True)
class UpOrder(PlanOrder):
    """What `cluster up` is asked for.

    Attributes:
        keep_on_failure: Leave what this run made for a look, instead of removing it.
        verify: Prove the nodes once they are up, if anything but the record was changed.
        policy: What becomes of jobs on nodes that are to be removed or restarted.
        seen: The cluster as it was a moment ago, where that is known.
        agreed: What it may lose, where that was asked; None where the spec alone says so.
    """

    seen: ClusterState | None = None
    agreed: Shrinking | None = None
    keep_on_failure: bool = False
    verify: bool = False
    policy: JobsPolicy = SPARE_JOBS

    def record_of(self, settled: ClusterSpec) -> dict[str, str]:
        """What is recorded of the cluster on this host once it is as `settled`."""
        return self.part.labels if self.part else {LABEL_SPEC: dump_spec(settled)}


@dataclass(frozen=True, kw_only=True)
class UpPreview:
    """What `cluster up` would do.

    Attributes:
        changes: One line for each.
        beside: Nodes that would stay though the spec does not have them, one line for each.
        older: Nodes that would keep an older image, and what it lacks, one line for those that are alike.
        unlimited: Nodes that would stay without limits of processes and memory, in a line.
        choice: What would be chosen other than usual, in a sentence.
        shared: That nodes would share GPUs, in words; empty where each would have its own.
        crowding: That nodes would have more processes than the host; empty where they would not.
        members: The nodes as they would be.
        secret: What nodes of the cluster's role share now, where a part of a cluster was asked about.
        busy: Why it would be refused, where jobs would end that nobody has said are to.
    """

    changes: tuple[str, ...]
    beside: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    unlimited: tuple[str, ...] = ()
    choice: str = ""
    shared: str = ""
    crowding: str = ""
    members: tuple[Member, ...] = ()
    secret: bytes = field(default=b"", repr=False)
    busy: UsageError | None = None

    def spare_jobs(self) -> UpPreview:
        """The same; raises why it would be refused for jobs."""
        if self.busy:
            raise self.busy
        return self


@dataclass(frozen=True, kw_only=True)
class UpResult(Outcome):
    """What `cluster up` did.

    Attributes:
        spec: What was asked for, with all that was left open filled in.
        report: What `verify` says; None where it was not asked for, or nothing but the record was changed.
        words: The word of its role for each node, as it was at the end.
        as_it_was: Where nothing was changed, the cluster as it was found, and is.
    """

    spec: ClusterSpec
    report: Report | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    as_it_was: ClusterState | None = None

    @property
    def passed(self) -> bool:
        """Whether `verify` found nothing wrong."""
        return self.report is None or self.report.passed

    def rows(self, driver: Driver, cluster: str) -> tuple[NodeRow, ...]:
        """The nodes of the cluster; the roles, which have just said their words, are not asked again."""
        return found_rows(driver, self.as_it_was or observe_cluster(driver, cluster), self.words)


def cluster_up(driver: Driver, order: UpOrder, host: Host, *, reporter: Reporter) -> UpResult:
    """Ensure networks, image and nodes, have their roles take work, and prove them.

    Raises:
        GpuprovError: Something refused or failed; what this run made is removed again.
    """
    name, policy = order.spec.name, order.policy
    gpus = _check(driver, order, host, reporter)
    if not order.again:
        mend_replacing(driver, name, host, seen=order.seen, reporter=reporter)
    left_over = f"run the same command again; to remove the whole cluster: gpuprov cluster down {name}"

    def look(engine: EngineState) -> UpPlan:
        with reporter.phase("plan"):
            plan = _plan(driver, order, host, gpus, engine)
            if order.agreed is not None:
                order.agreed.refuse_others(plan.todo.gone, plan.todo.unread)
            if order.part:
                order.part.refuse_changed(planned_members(plan.todo), recorded_whole(plan.observed.state))
            return plan.with_images()

    known = order.seen.engine if order.seen else None
    change = changing(driver, host, look, policy, reads=lambda _: [name], known=known, reporter=reporter)
    undo = Rollback(reporter, left_over=left_over, keep=order.keep_on_failure)
    with change as (plan, readings), undo as rollback:
        reading = readings[name]
        refuse_busy(driver, plan.leaves, policy)
        _warn(plan, order, reporter)
        loss = "" if order.part else plan.todo.loss_line()  # over hosts, who asked them says it
        older = older_notes(plan.find_older(), name, spans=bool(order.part))
        if plan.choice:
            reporter.node("networks", plan.choice)
        for line in filter(None, (plan.reuse, plan.todo.shared, loss, *plan.beside, *older)):
            reporter.note(line)
        run = NodeRun(driver=driver, reporter=reporter, rollback=rollback)
        plan.folders.ensure(host, rollback)
        with _telling_of_unrecorded(plan, reporter):
            changed, words = _carry_out(run, plan, _with_secret(order, reading), order, host)
    seen = reading.state
    report = None
    if order.verify and beyond_record(changed):
        with after_up(name, reporter):
            report = verify_cluster(driver, name, host=host, nodes=None, reporter=reporter)
    recorded = order.part.spec if order.part else order.spec
    untouched = not changed and seen.recorded == recorded  # a killed run may have left only the recording to do
    as_it_was = seen if untouched else None
    return UpResult(changed=changed, spec=plan.spec, report=report, words=words, as_it_was=as_it_was)


def preview_changes(
    driver: Driver, spec: ClusterSpec, host: Host, *, reporter: Reporter, policy: JobsPolicy = SPARE_JOBS
) -> tuple[str, ...]:
    """What `cluster_up` would change, one line each; raises what it would refuse, and changes nothing."""
    return preview_up(driver, UpOrder(spec=spec, policy=policy), host, reporter=reporter).spare_jobs().changes


def preview_up(driver: Driver, order: UpOrder, host: Host, *, reporter: Reporter) -> UpPreview:
    """What `cluster_up` would do; raises what it would refuse, except for jobs, and changes nothing."""
    gpus = _check(driver, order, host, reporter)
    plan, preview = read_steadily(driver, order.spec.name, lambda: _preview(driver, order, host, gpus))
    _warn(plan, order, reporter)
    return preview


def _check(driver: Driver, order: UpOrder, host: Host, reporter: Reporter) -> HostGpus:
    """Refuse what is wrong whatever there is; returns the host's GPUs."""
    check_spec(order.spec, left=order.left)
    return with_offers(driver, get_gpus(host, order.spec.gpus.mode, reporter=reporter))


def _plan(driver: Driver, order: UpOrder, host: Host, gpus: HostGpus, engine: EngineState) -> UpPlan:
    observed = observe(driver, host, engine, order.spec.name, gpus, Neighbours(host).claims(driver.name))
    spec = settle(order.draft, observed)
    return plan_up(order, spec, observed, ROLES)


def _warn(plan: UpPlan, order: UpOrder, reporter: Reporter) -> None:
    warn_of_silence(plan.observed.around.silent, reporter)
    if crowding := plan.crowding:
        reporter.warn(crowding)
    login = () if order.part else login_notes(plan.spec, plan.crew.members)  # over hosts, each would say it
    for line in (*login, *role_of(plan.spec.nodes.role).notes(plan.spec)):
        reporter.note(line)


def _preview(driver: Driver, order: UpOrder, host: Host, gpus: HostGpus) -> tuple[UpPlan, UpPreview]:
    plan = _plan(driver, order, host, gpus, observe_engine(driver))
    busy = None
    try:
        refuse_busy(driver, plan.leaves, order.policy)
    except UsageError as error:
        busy = error
    members = planned_members(plan.todo)
    renewal: tuple[str, ...] = ()
    secret = b""
    if order.part:
        secret = read_cluster(driver, plan.observed.state).secret(plan.spec.nodes.role)
    if order.part is None or order.part.matches(members):  # else the hosts have yet to agree on the files
        renewal = _preview_files(driver, plan)
    return plan, UpPreview(
        changes=(*plan.folders.lines(), *_preview_overlay(host, plan), *plan.todo.lines(), *renewal),
        beside=plan.beside,
        older=older_lines(plan.find_older()),
        unlimited=plan.todo.unlimited_lines(),
        choice=plan.choice,
        shared=plan.todo.shared,
        crowding=plan.crowding,
        members=members,
        secret=secret,
        busy=busy,
    )


def _preview_files(driver: Driver, plan: UpPlan) -> tuple[str, ...]:
    files = gather_files(driver, plan.crew, plan.observed.state, {}, designs=plan.todo.members)
    running = [design.name for design in (*plan.todo.keep, *plan.todo.repair) if design.name not in plan.todo.start]
    resumed = [RESUMED.format(name) for name in find_abandoned(driver, plan.observed.state) if name in running]
    return (*renewal_lines(files.roles, find_stale(driver, running, files.of)), *resumed)


def _preview_overlay(host: Host, plan: UpPlan) -> tuple[str, ...]:
    if plan.overlay is None:
        return ()
    if any(request.name == plan.overlay.bridge for request in plan.todo.networks.create):
        host.overlays.preview(replace(plan.overlay, bridge=None))  # for what it refuses
        return (f"create overlay {plan.overlay.device} between the hosts",)
    return host.overlays.preview(plan.overlay)


def _with_secret(order: UpOrder, reading: Reading) -> Reading:
    """What was read, with the secret that a controller has said."""
    return reading.with_secret(order.spec.nodes.role, order.part.secret) if order.part else reading


def _carry_out(
    run: NodeRun, plan: UpPlan, reading: Reading, order: UpOrder, host: Host
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Do what was planned; returns one line for each change, and the roles' words for the nodes."""
    driver, reporter, todo, state = run.driver, run.reporter, plan.todo, plan.observed.state
    bridged = plan.overlay is not None and plan.overlay.bridge is not None  # else the network is put on the overlay
    if todo.isolate:
        with reporter.phase("isolation"):
            record_host_ports(driver, plan.spec, state)
            isolate_networks(driver, todo.isolate, reporter=reporter)
    if todo.network_repairs:
        with reporter.phase("network repair"):
            for request, _ in todo.network_repairs:
                driver.set_network_settings(request)
    connected = () if bridged else _connect(run, plan, host)
    with networks_created(driver, todo.networks, run.rollback, reporter=reporter):
        connected = _connect(run, plan, host) if bridged else connected
        staying = replace(state, nodes=tuple(node for node in state.nodes if node.name not in todo.replace))
        files = gather_files(driver, plan.crew, staying, plan.images, reading, designs=todo.members)
        with leaving(driver, plan.leaves, order.policy, reporter=reporter):
            forced = _remove_and_repair(run, plan)
            if todo.create or todo.start:
                with reporter.phase("nodes"):
                    boot_nodes(driver, todo.start, reporter=reporter)
                    _create(replace(run, replaced=read_replacements(state)), plan, files)
            old, new = ([design.name for design in designs] for designs in ((*todo.keep, *todo.repair), todo.create))
            reading = reading.without([design.name for design in todo.repair])
            renewal = renew_nodes(driver, files, old, new=new, reading=reading, reporter=reporter)
    record_labels(driver, plan.spec, order.record_of(plan.spec), state)
    end_replacing(driver, state, todo.replace)
    renewed = without_started(renewal.changed, todo.start)
    changed = (*plan.folders.lines(), *connected, *todo.lines(forced), *renewed)
    if changed:
        renew_orders(driver, (node for node in state.nodes if node.name not in todo.remove))
    return changed, renewal.words


@contextmanager
def _telling_of_unrecorded(plan: UpPlan, reporter: Reporter) -> Iterator[None]:
    """Where the block breaks off, nodes that stay may have what is recorded at its end: say how to go on."""
    try:
        yield
    except BaseException:
        if plan.observed.state.nodes and plan.todo.recorded:
            undo = name_cluster("gpuprov cluster up", plan.spec.name)
            lines = excerpt("; ".join(plan.todo.recorded), LINE)
            reporter.warn(f"nodes may have what is not recorded: {lines}; to finish, {AGAIN}; to undo it: {undo}")
        raise


def _connect(run: NodeRun, plan: UpPlan, host: Host) -> tuple[str, ...]:
    """Connect the private network to those of the other hosts; returns one line for each change."""
    if plan.overlay is None:
        return ()
    if not plan.observed.state.own_networks:
        run.rollback.add(f"overlay {plan.overlay.device}", partial(host.overlays.remove, plan.spec.name))
    with run.reporter.phase("overlay"):
        return host.overlays.ensure(plan.overlay)


def _remove_and_repair(run: NodeRun, plan: UpPlan) -> dict[str, str]:
    """What may end jobs; returns what was forced, by node."""
    driver, reporter, todo = run.driver, run.reporter, plan.todo
    forced = {}
    if todo.remove:
        with reporter.phase("remove"):
            refuse_lost_queue(driver, plan.observed.state, todo.replace)
            forced = delete_nodes(driver, todo.remove, reporter=reporter)
    if todo.repair:
        with reporter.phase("repair"):
            settings = [name for name, drift in todo.drift.items() if drift.settings]
            forced |= repair_nodes(driver, todo.repair, settings=settings, restart=todo.restart, reporter=reporter)
    return forced


def _create(run: NodeRun, plan: UpPlan, files: FileSet) -> None:
    """Make the planned nodes, those of each role from its image; the slowest first."""
    seed = ensure_seed(run, plan.spec) if plan.images else ()
    for name, image in plan.images.items():
        role = role_of(name)
        designs = [design for design in plan.todo.create if design.role == name]
        early = [design for design in designs if design.name == role.slowest(plan.spec)]
        for together in (early, [design for design in designs if design not in early]):
            contents = {
                node: (*seed, *files.of(node), *arrivals_of(run.driver, node, run.replaced, plan.spec))
                for node in (design.name for design in together)
            }
            create_nodes(run, together, image, contents, labels=image_labels(image, role.recipe.labels))
