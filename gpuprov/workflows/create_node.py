"""`create-node`: one more node, in a cluster or as the first of a new one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.cluster.choice import describe_choice
from gpuprov.cluster.design import design_node
from gpuprov.cluster.files import planned_member, present_member
from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.cluster.find_node import get_node
from gpuprov.cluster.host_gpus import find_gpus, with_offers
from gpuprov.cluster.images import ensure_node_image, get_named_image
from gpuprov.cluster.leases import Neighbours, read_leases
from gpuprov.cluster.networks import attach, create_networks, isolate_networks, open_networks, plan_networks
from gpuprov.cluster.nodes import (
    Copied,
    NodeRun,
    boot_nodes,
    create_nodes,
    delete_nodes,
    ensure_seed,
    image_labels,
    with_forced,
)
from gpuprov.cluster.placement import Place
from gpuprov.cluster.read_steadily import read_steadily
from gpuprov.cluster.room import refuse_without_room
from gpuprov.cluster.services import init_of
from gpuprov.cluster.shared_addresses import refuse_shared_addresses
from gpuprov.cluster.state import observe_cluster, with_current_gpus
from gpuprov.cluster.surroundings import Surroundings
from gpuprov.cluster.waiting_for_gpus import AT_ONCE, when_free
from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.core.names import check_node_name, name_cluster
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import Rollback
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ORDER
from gpuprov.drivers.foreign import describe_foreign
from gpuprov.gpu.allocate import allocate
from gpuprov.gpu.spec_order import request_of_node
from gpuprov.planes.base import Crew, Departure
from gpuprov.planes.files import gather_files
from gpuprov.planes.hold import Leave
from gpuprov.planes.leaving import SPARE_JOBS, JobsPolicy, drained, leaving, refuse_busy
from gpuprov.planes.reading import read_then_lock
from gpuprov.planes.registry import PLAIN, check_spec, plane_of
from gpuprov.planes.renew import renew_cluster, renew_nodes
from gpuprov.spec.addressing import (
    free_number,
    number_of_address,
    number_of_name,
    parse_address,
    private_address,
    public_address,
)
from gpuprov.spec.draft import CHOOSABLE, NETWORK_VALUES, Draft
from gpuprov.spec.models import ClusterSpec, NodesSpec
from gpuprov.spec.variables import overlay_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from ipaddress import IPv4Interface

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.cluster.node_order import NodeOrder
    from gpuprov.cluster.state import ClusterState
    from gpuprov.cluster.waiting_for_gpus import Patience
    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, ImageState, NodeState
    from gpuprov.drivers.networks import NetworkRequest
    from gpuprov.gpu.allocate import Claims
    from gpuprov.gpu.models import HostGpus
    from gpuprov.host.base import Host
    from gpuprov.planes.files import Reading
    from gpuprov.spec.models import Role


def create_node(
    driver: Driver,
    order: NodeOrder,
    host: Host,
    *,
    reporter: Reporter,
    patience: Patience = AT_ONCE,
    policy: JobsPolicy | None = None,
) -> Outcome:
    """Make one node and wait until it is ready; a node that the same order made is completed, or left as it is.

    One of its name that has no fingerprint is made again: a killed run left it, or it lost its label in service.

    Args:
        driver: The engine.
        order: The node.
        host: The machine.
        reporter: Is told what goes on.
        patience: How long to wait for GPUs that others hold.
        policy: What becomes of jobs on a node that is made again; by default it stays, and `rm` is named.

    Raises:
        UsageError: The name, the address or the GPUs cannot be had, or a job runs on the node; nothing was changed.
        NotOurs: The name is taken by something foreign.
        TimedOut: The GPUs could not be had in the time that was given.
    """
    check_node_name(order.name)
    gpus = with_offers(driver, find_gpus(host, order.gpu_mode, reporter=reporter))
    policy = policy or JobsPolicy(first=f"gpuprov rm {order.name}")

    def look(claims: Claims) -> None:
        state = _observe(driver, order, gpus)
        if _made_by(order, state) is None:
            _plan(driver, order, state, host, gpus, claims)

    def attempt(claims: Callable[[], Claims], granted: Callable[[], object]) -> Outcome:
        left_over = f"run the same command again; to remove the node: gpuprov rm {order.name}"
        with (
            drained(driver, lambda: _leaves(order, _observe(driver, order, gpus)), policy, reporter=reporter),
            read_then_lock(driver, host, lambda: [order.cluster], reporter=reporter) as readings,
            Rollback(reporter, left_over=left_over) as rollback,
        ):
            run = NodeRun(driver=driver, reporter=reporter, rollback=rollback)
            with reporter.phase("plan"):
                state = _observe(driver, order, gpus)
                made = _made_by(order, state)
                plan = None if made else _plan(driver, order, state, host, gpus, claims())
            reading = readings[order.cluster]
            if plan:
                outcome = _create(run, order, plan, gpus, reading, policy)
            elif made:
                outcome = _complete(driver, made, reading, reporter=reporter)
            granted()
            return outcome

    return when_free(patience, Neighbours(host), driver.name, look=look, attempt=attempt, reporter=reporter)


def preview_node(
    driver: Driver, order: NodeOrder, host: Host, *, reporter: Reporter, policy: JobsPolicy = SPARE_JOBS
) -> str:
    """What `create_node` would make, in a line; raises what it would refuse, and changes nothing."""
    check_node_name(order.name)
    gpus = with_offers(driver, find_gpus(host, order.gpu_mode, reporter=reporter))

    def read() -> _NodePlan:
        state = _observe(driver, order, gpus)
        plan = _plan(driver, order, state, host, gpus, Neighbours(host).claims(driver.name))
        refuse_busy(driver, plan.leaves, policy)
        return plan

    plan = read_steadily(driver, order.cluster, read)
    warn_of_silence(plan.silent, reporter)
    return _created(plan.design)


def _observe(driver: Driver, order: NodeOrder, gpus: HostGpus) -> ClusterState:
    """The node's cluster as it is; refuses a name that is taken."""
    state = with_current_gpus(observe_cluster(driver, order.cluster), gpus)
    _refuse_taken(order, driver.name, state)
    return state


def _create(
    run: NodeRun, order: NodeOrder, plan: _NodePlan, gpus: HostGpus, reading: Reading, policy: JobsPolicy
) -> Outcome:
    driver, reporter = run.driver, run.reporter
    state, spec, design, plane = plan.state, plan.spec, plan.design, plane_of(plan.design.role)
    warn_of_silence(plan.silent, reporter)
    refuse_busy(driver, plan.leaves, policy)
    if not state.spec and order.role is None and plane is PLAIN:
        reporter.note(_what_plain_means(order))
    if plan.networks:
        choice = "" if state.spec else describe_choice(_first_draft(order), spec)
        if choice:
            reporter.note(choice)
        with reporter.phase("networks"):
            create_networks(driver, plan.networks, run.rollback, reporter=reporter)
    isolated = isolate_networks(driver, open_networks(state.networks, {spec.name}), reporter=reporter)
    image = plan.image or ensure_node_image(driver, spec, plane.recipe, gpus, reporter=reporter)
    old = [node for node in state.nodes if node.complete]
    members = sorted((*map(present_member, old), planned_member(design)), key=lambda member: member.name)
    files = gather_files(driver, Crew(spec=spec, members=tuple(members)), state, {design.role: image}, reading)
    with leaving(driver, plan.leaves, policy, reporter=reporter):
        removed = _remove(driver, plan, reporter=reporter)
        with reporter.phase("node"):
            seed = ensure_seed(run, spec)
            create_nodes(
                run,
                [design],
                image,
                lambda name: (*seed, *files.of(name)),
                labels={LABEL_ORDER: order.label(), **image_labels(image, plane.recipe.labels)},
                copied=Copied(source=order.source, forget=plane.forget(init_of(driver))) if order.source else None,
            )
        running = [node.name for node in old if node.status == "running"]
        renewal = renew_nodes(driver, files, running, new=[design.name], reading=reading, reporter=reporter)
    return Outcome(changed=(*isolated, *removed, _created(design), *renewal.changed))


def _remove(driver: Driver, plan: _NodePlan, *, reporter: Reporter) -> list[str]:
    """The unfinished node that is made again; one line if there is one."""
    names = [name for leave in plan.leaves for name in leave.departure.nodes]
    forced = delete_nodes(driver, names, reporter=reporter)
    return [with_forced("removed unfinished node", name, forced) for name in names]


def _leaves(order: NodeOrder, state: ClusterState) -> list[Leave]:
    """The node of that name, if it is unfinished; it may be in service all the same."""
    node = state.node(order.name)
    departure = Departure(nodes=(order.name,), lost=(order.name,))
    return [Leave(state=state, departure=departure)] if node and not node.complete else []


@dataclass(frozen=True, kw_only=True)
class _NodePlan:
    """The requested node and its prerequisites.

    Attributes:
        state: The cluster without an unfinished node of that name, which would hold its address and its GPUs.
        leaves: That node, if there is one.
        image: None if the role's own image is used.
        silent: Why engines do not respond whose networks this one has to keep clear of.
    """

    state: ClusterState
    leaves: list[Leave]
    spec: ClusterSpec
    networks: tuple[NetworkRequest, ...]
    design: NodeDesign
    image: ImageState | None
    silent: Mapping[str, GpuprovError]


def _plan(
    driver: Driver, order: NodeOrder, found: ClusterState, host: Host, gpus: HostGpus, claims: Claims
) -> _NodePlan:
    _refuse_running_source(driver, order)
    leaves = _leaves(order, found)
    state = replace(found, nodes=tuple(node for node in found.nodes if node.name != order.name))
    around = Surroundings(driver, host, state)
    spec = _spec_for(order, state, state.spec or around.settle(_first_draft(order)))
    check_spec(spec)
    around.refuse_taken_by_others(spec)
    plane = plane_of(spec.nodes.role)
    if plane.first_network and order.network == "private":
        raise UsageError(
            f"{order.name} cannot be a node of {plane.title} on the private network alone",
            evidence=f"its nodes find each other on {spec.network.bridge}, where this one would have no address",
            fix="omit --network, or use --role plain",
        )
    plane.refuse_joining(order.name, spec, state)
    networks = plan_networks(spec, state, version=__version__)
    leases = read_leases((*state.nodes, *state.others), engine=claims.engine)
    design = _design(order, spec, state, Place(host=host.name, gpus=gpus, leases=leases, claims=claims))
    image = None if order.image is None else get_named_image(driver, order.image)
    refuse_without_room(driver, host, nodes=1)
    own = found.taken_addresses().keys() - state.taken_addresses().keys()  # that node may run, and answer
    fresh = design.address and design.address not in own
    if not networks and fresh and host.answers(design.address, spec.network.bridge):
        raise UsageError(
            f"the address {design.address} is in use",
            evidence=f"something on {spec.network.bridge} that {driver.name} does not know responds at this address",
            fix="choose another address; those of the nodes: gpuprov list",
        )
    return _NodePlan(
        state=state,
        leaves=leaves,
        spec=spec,
        networks=networks,
        design=design,
        image=image,
        silent=around.silent,
    )


def _refuse_running_source(driver: Driver, order: NodeOrder) -> None:
    """Refuse to copy a node that runs, also one that another run has started while this one waited."""
    if order.source is None:
        return
    source = get_node(driver, order.source)
    if source.status == "running":
        raise UsageError(
            f"{source.name} is running; a copy could contain half-written files",
            evidence=f"status: {source.status}",
            fix=f"gpuprov stop {source.name}; gpuprov clone {source.name} {order.name}; gpuprov start {source.name}",
        )


def _created(design: NodeDesign) -> str:
    where = design.address or design.private_address
    return f"created node {design.name} {where} role {design.role}, {design.gpu_words}"


def _made_by(order: NodeOrder, state: ClusterState) -> NodeState | None:
    node = state.node(order.name)
    return node if node and node.complete and node.labels.get(LABEL_ORDER) == order.label() else None


def _complete(driver: Driver, node: NodeState, reading: Reading, *, reporter: Reporter) -> Outcome:
    """Do what a run that was killed after it had made the node left undone."""
    stopped = [node.name] if node.status != "running" else []
    if stopped:
        refuse_shared_addresses(stopped, driver.list_nodes(), command=driver.command)
        boot_nodes(driver, stopped, reporter=reporter)
    renewed = renew_cluster(driver, node.labels[LABEL_CLUSTER], reading, reporter=reporter)
    return Outcome(changed=(*(f"started {name}" for name in stopped), *renewed))


def _refuse_taken(order: NodeOrder, engine: str, state: ClusterState) -> None:
    name = order.name
    for node in (*state.nodes, *state.others):
        if node.name != name:
            continue
        if not node.ours:
            raise NotOurs(
                f"the name {name} is taken by {describe_foreign(node)}",
                evidence=f"{engine} has {name}, {node.status}, without a gpuprov label of its own",
                fix=f"choose another name; about that instance: gpuprov show {name}",
            )
        if node.complete and _made_by(order, state) is None:
            raise UsageError(
                f"the name {name} is taken",
                evidence=f"cluster {node.labels[LABEL_CLUSTER]} has a node {name} ({node.status}), "
                "which was created by a different command",
                fix=f"choose another name, or remove it: gpuprov rm {name}",
            )


def _first_draft(order: NodeOrder) -> Draft:
    """Of a cluster that begins with a node; where that has one of the usual names, so have those that follow."""
    spec = ClusterSpec(name=order.cluster, nodes=NodesSpec(count=1))
    usual = number_of_name(order.name, prefix=spec.nodes.prefix) is not None
    return Draft(spec=spec, left=NETWORK_VALUES if usual else CHOOSABLE)


def _spec_for(order: NodeOrder, state: ClusterState, spec: ClusterSpec) -> ClusterSpec:
    role = order.role or (spec.nodes.role if state.spec else _first_role(order, spec, state))
    nodes = replace(
        spec.nodes,
        role=role,
        mounts=(*spec.nodes.mounts, *order.mounts),
        environment=overlay_variables(spec.nodes.environment, order.environment),
        privileged=order.privileged or spec.nodes.privileged,
    )
    return replace(spec, nodes=nodes)


def _what_plain_means(order: NodeOrder) -> str:
    usual = plane_of(ClusterSpec().nodes.role)
    words = f"{order.name} is a plain node, without {usual.title}"
    if usual.begins_with(order.name, ClusterSpec()):
        return words  # with which a cluster of the usual nodes could not begin
    return f"{words}; for nodes with {usual.title}: {name_cluster('gpuprov cluster up -n 4', order.cluster)}"


def _first_role(order: NodeOrder, spec: ClusterSpec, state: ClusterState) -> Role:
    """The role of a node of which nothing is said, in a cluster that was never brought up.

    It is that of the cluster that `cluster up` would make, if the node can be one of its own.
    """
    plane = plane_of(spec.nodes.role)
    joins = state.nodes_of(plane.name) or plane.begins_with(order.name, spec)
    fits = order.image is None and not (plane.first_network and order.network == "private")
    return plane.name if joins and fits else PLAIN.name


def _design(order: NodeOrder, spec: ClusterSpec, state: ClusterState, place: Place) -> NodeDesign:
    request = request_of_node(order.gpu_order, state.spec or ClusterSpec(), place.gpus, node=order.name)
    gpus = allocate(place.gpus, place.leases, [request], claims=place.claims)[order.name]
    attachments = attach(spec, order.name, _addresses(order, spec, state))
    return design_node(spec, order.name, attachments=attachments, gpus=gpus, sharing=request.sharing, place=place)


def _addresses(order: NodeOrder, spec: ClusterSpec, state: ClusterState) -> dict[str, IPv4Interface]:
    taken = state.taken_addresses()
    number = number_of_name(order.name, prefix=spec.nodes.prefix)
    if order.address is not None:
        public = parse_address(order.address, spec.network, taken)
        number = number_of_address(public)
    elif number is None or str(public_address(number, spec.network).ip) in taken:
        number = free_number(spec.network, taken)
    public, private = public_address(number, spec.network), private_address(number, spec.network)
    if str(private.ip) in taken:
        raise UsageError(
            f"the private address {private.ip}, which belongs to {public.ip}, is in use",
            evidence=f"by {taken[str(private.ip)]}",
            fix="choose another --addr; those in use: gpuprov list",
        )
    return {
        "both": {"eth0": public, "eth1": private},
        "nat": {"eth0": public},
        "private": {"eth1": private},
    }[order.network]
