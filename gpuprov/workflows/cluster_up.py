"""`cluster up`: bring a cluster to what its spec says, changing only what differs, and prove its nodes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.cluster.choice import describe_choice
from gpuprov.cluster.files import planned_members
from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.cluster.host_gpus import get_gpus, with_offers
from gpuprov.cluster.leases import Neighbours, read_leases
from gpuprov.cluster.networks import isolate_networks, networks_created, record_host_ports, record_labels
from gpuprov.cluster.node_limits import crowding_line
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
from gpuprov.cluster.placement import Place
from gpuprov.cluster.plan import beyond_record, plan_cluster
from gpuprov.cluster.read_steadily import read_steadily
from gpuprov.cluster.replacements import ghosts_of, read_replacements
from gpuprov.cluster.room import ask_limits, refuse_without_room
from gpuprov.cluster.shared_addresses import refuse_shared_addresses
from gpuprov.cluster.state import observe_cluster, observe_engine, with_current_gpus
from gpuprov.cluster.surroundings import Surroundings
from gpuprov.cluster.whole import recorded_whole
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import Rollback
from gpuprov.drivers.base import LABEL_SPEC
from gpuprov.planes.across.changing import changing, read_cluster
from gpuprov.planes.across.files import find_stale, gather_files, renewal_lines
from gpuprov.planes.across.forgetting import find_forgetting
from gpuprov.planes.across.hold import Leave, find_abandoned
from gpuprov.planes.across.host_folders import FoldersPlan, look_and_plan_folders
from gpuprov.planes.across.image_age import find_older, older_lines, older_notes
from gpuprov.planes.across.leaving import SPARE_JOBS, leaving, refuse_busy
from gpuprov.planes.across.renew import renew_nodes
from gpuprov.planes.across.replacing import arrivals_of, end_replacing, mend_replacing, refuse_lost_queue
from gpuprov.planes.across.rows import found_rows
from gpuprov.planes.base import RELEASED, Crew, Departure, without_started
from gpuprov.planes.registry import PLANES, check_spec, find_role_images, plane_of, settle_draft, shared_mounts
from gpuprov.spec.draft import Draft
from gpuprov.spec.serialize import dump_spec
from gpuprov.workflows.verify import verify_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.images import MissingImages
    from gpuprov.cluster.part import ClusterPart
    from gpuprov.cluster.plan import Plan
    from gpuprov.cluster.shrinking import Shrinking
    from gpuprov.cluster.state import ClusterState, EngineState
    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.host.base import Host
    from gpuprov.host.overlay_plan import OverlayRequest
    from gpuprov.planes.across.files import FileSet, Reading
    from gpuprov.planes.across.leaving import JobsPolicy
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.engine import ImageState
    from gpuprov.shapes.nodes import NodeRow
    from gpuprov.shapes.verify import Report
    from gpuprov.shapes.whole import Member


@dataclass(frozen=True, kw_only=True)
class UpOrder:
    """What `cluster up` is asked for.

    Attributes:
        keep_on_failure: Leave what this run made for a look, instead of removing it.
        verify: Prove the nodes once they are up, if anything but the record was changed.
        prune: Remove nodes from create-node and clone that the spec does not have.
        policy: What becomes of jobs on nodes that are to be removed or restarted.
        left: Paths of values of the spec that nobody has said, to be chosen.
        seen: The cluster as it was a moment ago, where that is known.
        part: What this host is to do of a cluster that spans hosts; `spec` is then this host's.
        again: Nodes to replace by new ones of the same name, from which nothing can be lost any more: whoever asks for
            this holds them, and no job runs there.
        agreed: What it may lose, where that was asked; None where the spec alone says so.
        gives_up: Do without the options of nodes that this version does not know; else such a cluster is refused.
    """

    spec: ClusterSpec
    left: frozenset[str] = frozenset()
    seen: ClusterState | None = None
    part: ClusterPart | None = None
    agreed: Shrinking | None = None
    keep_on_failure: bool = False
    verify: bool = False
    prune: bool = False
    policy: JobsPolicy = SPARE_JOBS
    again: tuple[str, ...] = ()
    gives_up: bool = False

    @property
    def draft(self) -> Draft:
        """The spec with what was left open in it."""
        return Draft(spec=self.spec, left=self.left)

    def record_of(self, settled: ClusterSpec) -> dict[str, str]:
        """What is recorded of the cluster on this host once it is as `settled`."""
        return self.part.labels if self.part else {LABEL_SPEC: dump_spec(settled)}

    def crew_of(self, spec: ClusterSpec, plan: Plan) -> Crew:
        """The nodes of all hosts as they are to be."""
        if self.part is None:
            return Crew(spec=spec, members=planned_members(plan))
        return Crew(spec=spec, members=self.part.whole.reachable_members())


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
        silent: Why engines do not respond whose networks it would have to keep clear of.
        crowding: That nodes would have more processes than the host; empty where they would not.
        members: The nodes as they would be.
        secret: What nodes of the cluster's role share now, where a part of a cluster was asked about.
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
    silent: Mapping[str, GpuprovError] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class UpResult(Outcome):
    """What `cluster up` did.

    Attributes:
        report: What `verify` says; None where it was not asked for, or nothing but the record was changed.
        words: The word of its plane for each node, as it was at the end.
        as_it_was: Where nothing was changed, the cluster as it was found, and is.
    """

    report: Report | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    as_it_was: ClusterState | None = None

    @property
    def passed(self) -> bool:
        """Whether `verify` found nothing wrong."""
        return self.report is None or self.report.passed

    def rows(self, driver: Driver, cluster: str) -> tuple[NodeRow, ...]:
        """The nodes of the cluster; the planes, which have just said their words, are not asked again."""
        return found_rows(driver, self.as_it_was or observe_cluster(driver, cluster), self.words)


@dataclass(frozen=True, kw_only=True)
class _Aim:
    """What is asked for, what is there, and the difference.

    Attributes:
        choice: What was chosen other than usual, in a sentence.
        reuse: What an earlier cluster left in the folder of a new one, in a sentence.
        silent: Why engines do not respond whose networks this one has to keep clear of.
        crowding: That nodes will have more processes than the host, if so and this changes any.
        crew: The nodes whose files this host's nodes have, of all hosts.
        overlay: This host's end of the network between hosts.
        images: Those of new nodes, by role.
        missing: Those of them that are missing.
    """

    spec: ClusterSpec
    state: ClusterState
    plan: Plan
    folders: FoldersPlan
    gpus: HostGpus
    choice: str
    reuse: str
    silent: Mapping[str, GpuprovError]
    crowding: str
    crew: Crew
    overlay: OverlayRequest | None
    images: Mapping[str, ImageState] = field(default_factory=dict)
    missing: MissingImages | None = None

    def older(self, driver: Driver) -> dict[str, str]:
        """The nodes that stay with an older image, and what it lacks."""
        found = find_older(driver, self.state, self.spec)
        return {name: lack for name, lack in found.items() if name not in self.plan.remove}

    @property
    def leaves(self) -> list[Leave]:
        """The nodes that are to be removed or restarted, if there are any, and those whose jobs would be forgotten."""
        forgetting, forgotten = find_forgetting(self.state, self.spec)
        remove = [name for name in self.plan.remove if name not in self.plan.replace]
        departure = Departure(
            nodes=tuple(dict.fromkeys((*remove, *self.plan.restart, *forgetting))),
            lost=tuple(dict.fromkeys((*remove, *forgotten))),
        )
        return [Leave(state=self.state, departure=departure)] if departure.nodes else []


def cluster_up(driver: Driver, order: UpOrder, host: Host, *, reporter: Reporter) -> UpResult:
    """Ensure networks, image and nodes, have their planes take work, and prove them.

    Args:
        driver: The engine.
        order: What is asked for.
        host: The machine.
        reporter: Is told what goes on.

    Raises:
        GpuprovError: Something refused or failed; what this run made is removed again.
    """
    spec, policy = order.spec, order.policy
    check_spec(spec, left=order.left)
    gpus = get_gpus(host, spec.gpus.mode, reporter=reporter)
    if not order.again:
        mend_replacing(driver, spec.name, host, seen=order.seen, reporter=reporter)
    left_over = f"run the same command again; to remove the whole cluster: gpuprov cluster down {spec.name}"

    def look(engine: EngineState) -> _Aim:
        with reporter.phase("plan"):
            aim = _aim(driver, order, host, gpus, engine)
            if order.agreed is not None:
                order.agreed.refuse_others(aim.plan.gone, aim.plan.unread)
            if order.part:
                order.part.refuse_changed(planned_members(aim.plan), recorded_whole(aim.state))
            roles = (design.role for design in aim.plan.create)
            images, missing = find_role_images(driver, aim.spec, roles, aim.gpus, engine.built)
            return replace(aim, images=images, missing=missing)

    name, known = spec.name, order.seen.engine if order.seen else None
    with (
        changing(driver, host, look, policy, reads=lambda _: [name], known=known, reporter=reporter) as (aim, readings),
        Rollback(reporter, left_over=left_over, keep=order.keep_on_failure) as rollback,
    ):
        reading = readings[name]
        refuse_busy(driver, aim.leaves, policy)
        warn_of_silence(aim.silent, reporter)
        if aim.crowding:
            reporter.warn(aim.crowding)
        loss = "" if order.part else aim.plan.loss_line()  # over hosts, who asked them says it
        older = older_notes(aim.older(driver), spec.name)
        beside = (*aim.plan.beside_lines(), *aim.plan.role_lines(aim.spec.nodes.role))
        for line in filter(None, (aim.choice, aim.reuse, aim.plan.shared, loss, *beside, *older)):
            reporter.note(line)
        run = NodeRun(driver=driver, reporter=reporter, rollback=rollback)
        aim.folders.ensure(host, rollback)
        changed, words = _carry_out(run, aim, _with_secret(order, reading), order, host)
    seen = reading.state
    report = None
    if order.verify and beyond_record(changed):
        report = verify_cluster(driver, spec.name, host=host, nodes=None, reporter=reporter)
    recorded = order.part.spec if order.part else spec
    untouched = not changed and seen.recorded == recorded  # a killed run may have left only the recording to do
    return UpResult(changed=changed, report=report, words=words, as_it_was=seen if untouched else None)


def preview_changes(
    driver: Driver, spec: ClusterSpec, host: Host, *, reporter: Reporter, policy: JobsPolicy = SPARE_JOBS
) -> tuple[str, ...]:
    """What `cluster_up` would change, one line each; raises what it would refuse, and changes nothing."""
    return preview_up(driver, UpOrder(spec=spec, policy=policy), host, reporter=reporter).changes


def preview_up(driver: Driver, order: UpOrder, host: Host, *, reporter: Reporter) -> UpPreview:
    """What `cluster_up` would do; raises what it would refuse, and changes nothing."""
    check_spec(order.spec, left=order.left)
    gpus = get_gpus(host, order.spec.gpus.mode, reporter=reporter)
    preview = read_steadily(driver, order.spec.name, lambda: _preview(driver, order, host, gpus))
    warn_of_silence(preview.silent, reporter)
    if preview.crowding:
        reporter.warn(preview.crowding)
    return preview


def _preview(driver: Driver, order: UpOrder, host: Host, gpus: HostGpus) -> UpPreview:
    aim = _aim(driver, order, host, gpus, observe_engine(driver))
    refuse_busy(driver, aim.leaves, order.policy)
    members = planned_members(aim.plan)
    renewal: tuple[str, ...] = ()
    secret = b""
    if order.part:
        secret = read_cluster(driver, aim.state).secret(aim.spec.nodes.role)
    if order.part is None or order.part.matches(members):  # else the hosts have yet to agree on the files
        renewal = _preview_files(driver, aim)
    return UpPreview(
        changes=(*aim.folders.lines(), *_preview_overlay(host, aim), *aim.plan.lines(), *renewal),
        beside=(*aim.plan.beside_lines(), *aim.plan.role_lines(aim.spec.nodes.role)),
        older=older_lines(aim.older(driver)),
        unlimited=aim.plan.unlimited_lines(),
        choice=aim.choice,
        shared=aim.plan.shared,
        silent=aim.silent,
        crowding=aim.crowding,
        members=members,
        secret=secret,
    )


def _preview_files(driver: Driver, aim: _Aim) -> tuple[str, ...]:
    files = gather_files(driver, aim.crew, aim.state, {}, designs=aim.plan.members)
    running = [design.name for design in (*aim.plan.keep, *aim.plan.repair) if design.name not in aim.plan.start]
    released = [RELEASED.format(name) for name in find_abandoned(driver, aim.state) if name in running]
    return (*renewal_lines(files.planes, find_stale(driver, running, files.of)), *released)


def _preview_overlay(host: Host, aim: _Aim) -> tuple[str, ...]:
    if aim.overlay is None:
        return ()
    if any(request.name == aim.overlay.bridge for request in aim.plan.networks.create):
        host.overlays.preview(replace(aim.overlay, bridge=None))  # for what it refuses
        return (f"create overlay {aim.overlay.device} between the hosts",)
    return host.overlays.preview(aim.overlay)


def _with_secret(order: UpOrder, reading: Reading) -> Reading:
    """What was read, with the secret that a controller has said."""
    return reading.with_secret(order.spec.nodes.role, order.part.secret) if order.part else reading


def _aim(driver: Driver, order: UpOrder, host: Host, gpus: HostGpus, engine: EngineState) -> _Aim:
    """Plan, and refuse a plan that clashes with the host."""
    gpus = with_offers(driver, gpus)
    state = with_current_gpus(engine.cluster(order.spec.name), gpus)
    around = Surroundings(driver, host, state)
    spec = settle_draft(order.draft, state, host, around)
    check_spec(spec)
    around.refuse_taken_by_others(spec)
    leases = read_leases((*state.nodes, *ghosts_of(state), *state.others), engine=driver.name)
    claims = Neighbours(host).claims(driver.name)
    limits = ask_limits(driver, host, nodes=len(order.part.nodes) if order.part else spec.nodes.count)
    shared = shared_mounts(spec)
    place = Place(host=host.name, gpus=gpus, leases=leases, claims=claims, shared=shared, limits=limits)
    place = order.part.place(place) if order.part else place
    plan = plan_cluster(
        spec,
        state,
        place,
        version=__version__,
        expect=driver,
        prune=order.prune,
        again=order.again,
        gives_up=order.gives_up,
    )
    refuse_without_room(driver, host, nodes=len(plan.create))
    starting = [*plan.start, *plan.restart]
    refuse_shared_addresses(starting, (*state.nodes, *state.others), command=driver.command)
    crew = order.crew_of(spec, plan)
    if order.part is None or order.part.matches(planned_members(plan)):
        for plane in PLANES.values():
            plane.refuse_crew(crew)
    overlay = order.part.overlay(driver) if order.part else None
    folders = look_and_plan_folders(driver, host, spec, state, plan.members, around)
    new = plan.networks.create and not state.nodes
    promised = [design.limits.processes for design in plan.members]
    promised += [node.limits.processes for node in state.others if node.ours]
    choice = describe_choice(order.draft, spec) if plan.networks.create else ""
    return _Aim(
        spec=spec,
        state=state,
        plan=plan,
        folders=folders,
        gpus=gpus,
        choice=choice,
        reuse=folders.share.reuse_note() if new else "",
        silent=around.silent,
        crowding=crowding_line(promised, host.limits()) if plan.create or plan.repair else "",
        crew=crew,
        overlay=overlay,
    )


def _carry_out(
    run: NodeRun, aim: _Aim, reading: Reading, order: UpOrder, host: Host
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Do what was planned; returns one line for each change, and the planes' words for the nodes."""
    driver, reporter, spec, plan = run.driver, run.reporter, aim.spec, aim.plan
    bridged = aim.overlay is not None and aim.overlay.bridge is not None  # else the network is put on the overlay
    if plan.isolate:
        with reporter.phase("isolation"):
            record_host_ports(driver, spec, aim.state)
            isolate_networks(driver, plan.isolate, reporter=reporter)
    if plan.network_repairs:
        with reporter.phase("network repair"):
            for request, _ in plan.network_repairs:
                driver.set_network_settings(request)
    connected = () if bridged else _connect(run, aim, host)
    with networks_created(driver, plan.networks, run.rollback, reporter=reporter):
        connected = _connect(run, aim, host) if bridged else connected
        staying = replace(aim.state, nodes=tuple(node for node in aim.state.nodes if node.name not in plan.replace))
        files = gather_files(driver, aim.crew, staying, aim.images, reading, designs=plan.members)
        with leaving(driver, aim.leaves, order.policy, reporter=reporter):
            forced = _remove_and_repair(run, aim)
            if plan.create or plan.start:
                with reporter.phase("nodes"):
                    boot_nodes(driver, plan.start, reporter=reporter)
                    _create(replace(run, replaced=read_replacements(aim.state)), aim, files)
            old, new = ([design.name for design in designs] for designs in ((*plan.keep, *plan.repair), plan.create))
            reading = reading.without([design.name for design in plan.repair])
            renewal = renew_nodes(driver, files, old, new=new, reading=reading, reporter=reporter)
    record_labels(driver, spec, order.record_of(spec), aim.state)
    end_replacing(driver, aim.state, plan.replace)
    renewed = without_started(renewal.changed, plan.start)
    changed = (*aim.folders.lines(), *connected, *plan.lines(forced), *renewed)
    if changed:
        renew_orders(driver, (node for node in aim.state.nodes if node.name not in plan.remove))
    return changed, renewal.words


def _connect(run: NodeRun, aim: _Aim, host: Host) -> tuple[str, ...]:
    """Connect the private network to those of the other hosts; returns one line for each change."""
    if aim.overlay is None:
        return ()
    if not aim.state.own_networks:
        run.rollback.add(f"overlay {aim.overlay.device}", partial(host.overlays.remove, aim.spec.name))
    with run.reporter.phase("overlay"):
        return host.overlays.ensure(aim.overlay)


def _remove_and_repair(run: NodeRun, aim: _Aim) -> dict[str, str]:
    """What may end jobs; returns what was forced, by node."""
    driver, reporter, plan = run.driver, run.reporter, aim.plan
    forced = {}
    if plan.remove:
        with reporter.phase("remove"):
            refuse_lost_queue(driver, aim.state, plan.replace)
            forced = delete_nodes(driver, plan.remove, reporter=reporter)
    if plan.repair:
        with reporter.phase("repair"):
            settings = [name for name, drift in plan.drift.items() if drift.settings]
            forced |= repair_nodes(driver, plan.repair, settings=settings, restart=plan.restart, reporter=reporter)
    return forced


def _create(run: NodeRun, aim: _Aim, files: FileSet) -> None:
    """Make the planned nodes, those of each role from its image; the slowest first."""
    seed = ensure_seed(run, aim.spec) if aim.images else ()
    for role, image in aim.images.items():
        plane = plane_of(role)
        designs = [design for design in aim.plan.create if design.role == role]
        early = [design for design in designs if design.name == plane.slowest(aim.spec)]
        for together in (early, [design for design in designs if design not in early]):
            names = [design.name for design in together]
            contents = {
                name: (*seed, *files.of(name), *arrivals_of(run.driver, name, run.replaced, aim.spec)) for name in names
            }
            create_nodes(run, together, image, contents, labels=image_labels(image, plane.recipe.labels))
