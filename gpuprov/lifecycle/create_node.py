"""`create-node`: one more node, in a cluster or as the first of a new one; `clone`: one with the disk of another."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuprov.cluster.choice import describe_choice
from gpuprov.cluster.files import planned_member
from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.cluster.find_node import get_node
from gpuprov.cluster.host_gpus import get_gpus, with_offers
from gpuprov.cluster.leases import Neighbours
from gpuprov.cluster.network_plan import open_networks
from gpuprov.cluster.networks import isolate_networks, networks_created
from gpuprov.cluster.nodes import (
    Copied,
    NodeRun,
    boot_nodes,
    create_nodes,
    delete_nodes,
    ensure_seed,
    image_labels,
)
from gpuprov.cluster.observed import observe
from gpuprov.cluster.order_label import write_order
from gpuprov.cluster.ordered_node import first_draft, made_by
from gpuprov.cluster.services import init_of
from gpuprov.cluster.share import ensure_share
from gpuprov.cluster.shared_addresses import refuse_shared_addresses
from gpuprov.cluster.state import observe_engine
from gpuprov.core.errors import UsageError
from gpuprov.core.names import check_node_name
from gpuprov.core.outcome import Outcome, with_forced
from gpuprov.core.rollback import Rollback
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ORDER, LABEL_ROLE
from gpuprov.gpu.waiting_for_gpus import AT_ONCE, Turn, when_free
from gpuprov.lifecycle.changing import changing, read_steadily
from gpuprov.lifecycle.files import gather_files, present_crew
from gpuprov.lifecycle.leaving import SPARE_JOBS, JobsPolicy, leaving, refuse_busy
from gpuprov.lifecycle.node_plan import explain_plain, plan_node
from gpuprov.lifecycle.out_of_service import NodesLeave
from gpuprov.lifecycle.renew import renew_cluster, renew_nodes
from gpuprov.roles.registry import ROLES, role_of
from gpuprov.shapes.node_order import NodeOrder

if TYPE_CHECKING:
    from gpuprov.cluster.observed import Observed
    from gpuprov.cluster.state import EngineState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.gpu.waiting_for_gpus import Patience
    from gpuprov.lifecycle.files import Reading
    from gpuprov.lifecycle.node_plan import NodePlan
    from gpuprov.machine.base import Host
    from gpuprov.shapes.choices import GpuMode


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
        patience: How long to wait for GPUs that others hold.
        policy: What becomes of jobs on a node that is made again; by default it stays, and `rm` is named.

    Raises:
        ClusterSlip: Its cluster would be new, and another one has a name like that.
        UsageError: The name, the address or the GPUs cannot be had, or a job runs on the node; nothing was changed.
        NotOurs: The name is taken by something foreign.
        TimedOut: The GPUs could not be had in the time that was given.
    """
    check_node_name(order.name)
    name, gpus = order.cluster, with_offers(driver, get_gpus(host, order.gpu_mode, reporter=reporter))
    policy = policy or JobsPolicy(first=f"gpuprov rm {order.name}")

    left_over = f"run the same command again; to remove the node: gpuprov rm {order.name}"

    def plan(observed: Observed) -> NodePlan | NodesLeave:
        found = _plan(order, observed)
        if not (order.new_cluster or order.agreed or isinstance(found, NodesLeave)) and _begins_cluster(found):
            observed.around.refuse_slip(order.name)
        return found

    def attempt(turn: Turn) -> Outcome:
        def look(engine: EngineState) -> NodePlan | NodesLeave:
            with reporter.phase("plan"):
                found = plan(observe(driver, host, engine, name, gpus, turn.claims()))
                return found if isinstance(found, NodesLeave) else found.with_images()

        with (
            changing(driver, host, look, policy, reads=lambda _: [name], reporter=reporter) as (found, readings),
            Rollback(reporter, left_over=left_over) as rollback,
        ):
            run = NodeRun(driver=driver, reporter=reporter, rollback=rollback)
            if isinstance(found, NodesLeave):
                outcome = _complete(driver, found.nodes[0], readings[name], reporter=reporter)
            else:
                outcome = _create(run, order, found, host, readings[name], policy)
            turn.end()
            return outcome

    def try_on(turn: Turn) -> None:
        plan(observe(driver, host, observe_engine(driver), name, gpus, turn.claims()))

    turn = Turn(neighbours=Neighbours(host), engine=driver.name)
    return when_free(patience, turn, look=try_on, attempt=attempt, reporter=reporter)


def preview_node(
    driver: Driver, order: NodeOrder, host: Host, *, reporter: Reporter, policy: JobsPolicy = SPARE_JOBS
) -> str:
    """What `create_node` would make, in a line; raises what it would refuse, and changes nothing."""
    check_node_name(order.name)
    gpus = with_offers(driver, get_gpus(host, order.gpu_mode, reporter=reporter))

    def read() -> NodePlan:
        claims = Neighbours(host).claims(driver.name)
        plan = plan_node(order, observe(driver, host, observe_engine(driver), order.cluster, gpus, claims), ROLES)
        refuse_busy(driver, plan.leaves, policy)
        return plan

    plan = read_steadily(driver, order.cluster, read)
    warn_of_silence(plan.observed.around.silent, reporter)
    return f"created node {plan.design.summary}"


def _plan(order: NodeOrder, observed: Observed) -> NodePlan | NodesLeave:
    """The node as it would be made; or itself, where the same order made it, and nothing leaves."""
    if made := made_by(order, observed.state):
        return NodesLeave(nodes=[made], leaves=())
    return plan_node(order, observed, ROLES)


def _begins_cluster(plan: NodePlan) -> bool:
    return bool(plan.networks.create) and not plan.observed.state.exists


def _create(
    run: NodeRun, order: NodeOrder, plan: NodePlan, host: Host, reading: Reading, policy: JobsPolicy
) -> Outcome:
    driver, reporter, image = run.driver, run.reporter, plan.images[plan.design.role]
    refuse_busy(driver, plan.leaves, policy)
    ensure_share(host, plan.share, run.rollback)
    reading = reading.with_secret(plan.design.role, base64.b64decode(order.secret, validate=True))
    state, spec, design, role = plan.observed.state, plan.spec, plan.design, role_of(plan.design.role)
    warn_of_silence(plan.observed.around.silent, reporter)
    why_plain = explain_plain(order, design.role, state)
    choice = describe_choice(first_draft(order), spec) if plan.networks.create and not state.spec else ""
    if choice:
        reporter.node("networks", choice)
    new = plan.observed.around.describe_new() if _begins_cluster(plan) else ""
    for line in filter(None, (new, why_plain)):
        reporter.note(line)
    isolated = isolate_networks(driver, open_networks(state.networks, {spec.name}), reporter=reporter)
    old = [node for node in state.nodes if node.complete]
    crew = replace(present_crew(state, [planned_member(design)]), spec=spec, sssd=order.sssd)
    with networks_created(driver, plan.networks, run.rollback, reporter=reporter):
        files = gather_files(driver, crew, state, {design.role: image}, reading, designs=[design])
        with leaving(driver, plan.leaves, policy, reporter=reporter):
            removed = _remove(driver, plan, reporter=reporter)
            with reporter.phase("node"):
                seed = ensure_seed(run, spec)
                create_nodes(
                    run,
                    [design],
                    image,
                    {design.name: (*seed, *files.of(design.name))},
                    labels={LABEL_ORDER: write_order(order), **image_labels(image, role.recipe.labels)},
                    copied=Copied(source=order.source, forget=role.forget(init_of(driver))) if order.source else None,
                )
            running = [node.name for node in old if node.status == "running"]
            renewal = renew_nodes(driver, files, running, new=[design.name], reading=reading, reporter=reporter)
    return Outcome(
        changed=(*isolated, *plan.share.lines(), *removed, f"created node {design.summary}", *renewal.changed)
    )


def _remove(driver: Driver, plan: NodePlan, *, reporter: Reporter) -> list[str]:
    """The unfinished node that is made again; one line if there is one."""
    names = [name for leave in plan.leaves for name in leave.departure.nodes]
    forced = delete_nodes(driver, names, reporter=reporter)
    return [with_forced("removed unfinished node", name, forced) for name in names]


def _complete(driver: Driver, node: NodeState, reading: Reading, *, reporter: Reporter) -> Outcome:
    """Do what a run that was killed after it had made the node left undone."""
    stopped = [node.name] if node.status != "running" else []
    if stopped:
        refuse_shared_addresses(stopped, driver.list_nodes(), command=driver.command)
        boot_nodes(driver, stopped, reporter=reporter)
    renewed = renew_cluster(driver, node.labels[LABEL_CLUSTER], reading, reporter=reporter)
    return Outcome(changed=(*(f"started {name}" for name in stopped), *renewed))


@dataclass(frozen=True, kw_only=True)
class CloneOrder:
    """What `clone` is asked for; where no address is given, the copy takes a free one."""

    source: str
    name: str
    address: str | None = None
    gpu_mode: GpuMode = "auto"


def clone_node(driver: Driver, order: CloneOrder, host: Host, *, reporter: Reporter) -> Outcome:
    """Copy a stopped node's disk into a new node of its cluster.

    Raises:
        UsageError: The source runs (its files would be copied half-written), or the name or address cannot be had.
    """
    node = _find_source(driver, order.source, host, reporter)
    wanted = NodeOrder(
        name=order.name,
        cluster=node.labels[LABEL_CLUSTER],
        address=order.address,
        role=node.labels[LABEL_ROLE],
        source=order.source,
        gpu_mode=order.gpu_mode,
    )
    return create_node(driver, wanted, host, reporter=reporter)


def _find_source(driver: Driver, name: str, host: Host, reporter: Reporter) -> NodeState:
    """The node; where there is none, a run that makes it may be under way."""
    try:
        return get_node(driver, name)
    except UsageError:
        with host.lock(reporter):
            return get_node(driver, name)
