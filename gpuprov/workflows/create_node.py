"""`create-node`: one more node, in a cluster or as the first of a new one; `clone`: one with the disk of another."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.choice import describe_choice
from gpuprov.cluster.files import planned_member
from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.cluster.find_node import get_node
from gpuprov.cluster.host_gpus import get_gpus, with_offers
from gpuprov.cluster.images import find_images, node_recipe
from gpuprov.cluster.leases import Neighbours
from gpuprov.cluster.network_rules import open_networks
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
from gpuprov.cluster.order_label import write_order
from gpuprov.cluster.ordered_spec import first_draft
from gpuprov.cluster.read_steadily import read_steadily
from gpuprov.cluster.services import init_of
from gpuprov.cluster.share import ensure_share
from gpuprov.cluster.shared_addresses import refuse_shared_addresses
from gpuprov.cluster.taken_name import made_by
from gpuprov.cluster.waiting_for_gpus import AT_ONCE, when_free
from gpuprov.core.errors import UsageError
from gpuprov.core.names import check_node_name
from gpuprov.core.outcome import Outcome, with_forced
from gpuprov.core.rollback import Rollback
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ORDER, LABEL_ROLE
from gpuprov.planes.across.files import gather_files, present_crew
from gpuprov.planes.across.leaving import SPARE_JOBS, JobsPolicy, drained, leaving, refuse_busy
from gpuprov.planes.across.node_plan import find_unfinished, look_and_plan_node, observe_cluster_of
from gpuprov.planes.across.ordered_role import explain_plain
from gpuprov.planes.across.reading import read_then_lock
from gpuprov.planes.across.renew import renew_cluster, renew_nodes
from gpuprov.planes.registry import plane_of
from gpuprov.shapes.node_order import NodeOrder
from gpuprov.workflows.standalone_image import MissingImages, with_images

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cluster.state import ClusterState
    from gpuprov.cluster.waiting_for_gpus import Patience
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.gpu.allocate import Claims
    from gpuprov.gpu.models import HostGpus
    from gpuprov.host.base import Host
    from gpuprov.planes.across.files import Reading
    from gpuprov.planes.across.node_plan import NodePlan
    from gpuprov.shapes.choices import GpuMode
    from gpuprov.shapes.engine import ImageState
    from gpuprov.workflows.standalone_image import Built

    MadeOr = Outcome | MissingImages


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
    gpus = with_offers(driver, get_gpus(host, order.gpu_mode, reporter=reporter))
    policy = policy or JobsPolicy(first=f"gpuprov rm {order.name}")

    def observe() -> ClusterState:
        return observe_cluster_of(driver, order, gpus)

    def look(claims: Claims) -> None:
        state = observe()
        if made_by(order, state) is None:
            look_and_plan_node(driver, order, state, host, gpus, claims)

    left_over = f"run the same command again; to remove the node: gpuprov rm {order.name}"

    def attempt(claims: Callable[[], Claims], granted: Callable[[], object]) -> Outcome:
        with drained(driver, lambda: find_unfinished(order, observe()), policy, reporter=reporter):
            return with_images(driver, host, partial(act, claims, granted), reporter=reporter)

    def act(claims: Callable[[], Claims], granted: Callable[[], object], host: Host, built: Built) -> MadeOr:
        with (
            read_then_lock(driver, host, lambda: [order.cluster], reporter=reporter) as readings,
            Rollback(reporter, left_over=left_over) as rollback,
        ):
            run = NodeRun(driver=driver, reporter=reporter, rollback=rollback)
            made = _make(
                run, order, host, gpus, claims=claims, built=built, reading=readings[order.cluster], policy=policy
            )
            if not isinstance(made, MissingImages):
                granted()
            return made

    return when_free(patience, Neighbours(host), driver.name, look=look, attempt=attempt, reporter=reporter)


def preview_node(
    driver: Driver, order: NodeOrder, host: Host, *, reporter: Reporter, policy: JobsPolicy = SPARE_JOBS
) -> str:
    """What `create_node` would make, in a line; raises what it would refuse, and changes nothing."""
    check_node_name(order.name)
    gpus = with_offers(driver, get_gpus(host, order.gpu_mode, reporter=reporter))

    def read() -> NodePlan:
        state = observe_cluster_of(driver, order, gpus)
        plan = look_and_plan_node(driver, order, state, host, gpus, Neighbours(host).claims(driver.name))
        refuse_busy(driver, plan.leaves, policy)
        return plan

    plan = read_steadily(driver, order.cluster, read)
    warn_of_silence(plan.silent, reporter)
    return f"created node {plan.design.summary}"


def _make(  # noqa: PLR0913 - what `create_node` has at hand under the lock
    run: NodeRun,
    order: NodeOrder,
    host: Host,
    gpus: HostGpus,
    *,
    claims: Callable[[], Claims],
    built: Built,
    reading: Reading,
    policy: JobsPolicy,
) -> MadeOr:
    """Observe, plan and act; nothing is changed where the image is missing."""
    driver, reporter = run.driver, run.reporter
    with reporter.phase("plan"):
        state = observe_cluster_of(driver, order, gpus)
        if not (made := made_by(order, state)):
            plan = look_and_plan_node(driver, order, state, host, gpus, claims())
    if made:
        return _complete(driver, made, reading, reporter=reporter)
    refuse_busy(driver, plan.leaves, policy)
    image = plan.image or _find_image(driver, plan, gpus, built)
    if isinstance(image, MissingImages):
        return image
    ensure_share(host, plan.share, run.rollback)
    return _create(run, order, plan, image, reading, policy)


def _find_image(driver: Driver, plan: NodePlan, gpus: HostGpus, built: Built) -> ImageState | MissingImages:
    """The image of the node's role."""
    role = plan.design.role
    recipes = {role: node_recipe(plan.spec, plane_of(role).recipe, gpus, init=init_of(driver))}
    return find_images(driver, recipes, built).get(role) or MissingImages(
        recipes=recipes, host_ports=plan.spec.network.host_ports
    )


def _create(
    run: NodeRun, order: NodeOrder, plan: NodePlan, image: ImageState, reading: Reading, policy: JobsPolicy
) -> Outcome:
    driver, reporter = run.driver, run.reporter
    reading = reading.with_secret(plan.design.role, base64.b64decode(order.secret, validate=True))
    state, spec, design, plane = plan.state, plan.spec, plan.design, plane_of(plan.design.role)
    warn_of_silence(plan.silent, reporter)
    why_plain = explain_plain(order, design.role, state)
    choice = describe_choice(first_draft(order), spec) if plan.networks.create and not state.spec else ""
    for line in filter(None, (why_plain, choice)):
        reporter.note(line)
    isolated = isolate_networks(driver, open_networks(state.networks, {spec.name}), reporter=reporter)
    old = [node for node in state.nodes if node.complete]
    crew = replace(present_crew(state, [planned_member(design)]), spec=spec)
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
                    lambda name: (*seed, *files.of(name)),
                    labels={LABEL_ORDER: write_order(order), **image_labels(image, plane.recipe.labels)},
                    copied=Copied(source=order.source, forget=plane.forget(init_of(driver))) if order.source else None,
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
