"""`cluster up --renew`: nodes with an older image are replaced one after the other, the one that gives work last."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.host_gpus import get_gpus, with_offers
from gpuprov.cluster.images import MissingImages
from gpuprov.cluster.order_label import read_order
from gpuprov.cluster.state import observe_cluster, with_snapshots
from gpuprov.core.errors import UsageError
from gpuprov.core.names import fold, name_cluster
from gpuprov.drivers.base import LABEL_ROLE
from gpuprov.lifecycle.cluster_up import UpResult, cluster_up
from gpuprov.lifecycle.image_age import find_older
from gpuprov.lifecycle.kept_queue import can_keep, count_kept, queue_of
from gpuprov.lifecycle.leaving import drained, leaving
from gpuprov.lifecycle.out_of_service import Leave
from gpuprov.lifecycle.replacing import replacing
from gpuprov.lifecycle.verify import verify_cluster
from gpuprov.roles.base import spec_of
from gpuprov.roles.departure import Departure
from gpuprov.roles.registry import ROLES, role_recipe
from gpuprov.spec.shared_folder import SHARED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.lifecycle.cluster_up import UpOrder
    from gpuprov.machine.base import Host
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.engine import ImageState

DRAIN_S: Final = 3600.0  # where nobody says how long running jobs are waited for


@dataclass(frozen=True, kw_only=True)
class Replaceable:
    """The nodes with an older image.

    Attributes:
        names: Those that are replaced, in that order.
        copies: Those that `clone` made: they were made from a disk and not from an image, and stay.
        lost: What goes with those that are replaced, in words.
    """

    names: tuple[str, ...]
    copies: tuple[str, ...]
    lost: str

    @property
    def lines(self) -> tuple[str, ...]:
        """Those of a plan."""
        return tuple(f"replace node {name}" for name in self.names)


def find_replaceable(driver: Driver, state: ClusterState, spec: ClusterSpec) -> Replaceable:
    """The nodes that `replace_older` would replace; changes nothing."""
    found = [node for node in state.nodes if node.name in find_older(driver, state, spec)]
    copies = [node.name for node in found if (order := read_order(node)) and order.source]
    nodes = sorted((node for node in found if node.name not in copies), key=lambda node: _turn(node, spec))
    outside = f" outside {SHARED}" if state.shared_folder else ""
    snapshots = [node.name for node in with_snapshots(driver, nodes) if node.snapshots]
    more = f", and the snapshots of {fold(snapshots)}" if snapshots else ""
    names = tuple(node.name for node in nodes)
    return Replaceable(names=names, copies=tuple(copies), lost=f"what is in {fold(names)}{outside}{more}")


def _turn(node: NodeState, spec: ClusterSpec) -> tuple[int, str]:
    """The node that gives work comes last, after those that can take its place."""
    role = ROLES.get(node.labels.get(LABEL_ROLE, ""))
    controllers = role.controller_names(spec) if role else ()
    return (len(controllers) - controllers.index(node.name) if node.name in controllers else 0), node.name


def replace_older(driver: Driver, order: UpOrder, host: Host, *, reporter: Reporter) -> UpResult:
    """Bring a cluster to its spec, then replace its nodes that have an older image, and prove them.

    Raises:
        GpuprovError: Something refused or failed; nodes that were replaced before stay, and the same command goes on.
    """
    done = cluster_up(driver, replace(order, verify=False), host, reporter=reporter)
    state = observe_cluster(driver, order.spec.name)
    spec = spec_of(state)
    found = find_replaceable(driver, state, spec)
    for name in found.copies:
        reporter.note(f"{name} stays as it is: clone made it from the disk of another node")
    changed, words = list(done.changed), dict(done.words)
    if found.names:
        images = _ensure_images(driver, state, spec, found, host, reporter)
        for name in found.names:
            _keeps(driver, state, name, images, order, reporter)  # for what it refuses, before any node goes
        for name in found.names:
            result = _replace(driver, name, images, order, host, reporter)
            changed += result.changed
            words |= result.words
    report = None
    if order.verify and changed:
        report = verify_cluster(driver, spec.name, host=host, nodes=None, reporter=reporter)
    return UpResult(changed=tuple(changed), spec=done.spec, report=report, words=words)


def _ensure_images(
    driver: Driver, state: ClusterState, spec: ClusterSpec, found: Replaceable, host: Host, reporter: Reporter
) -> Mapping[str, ImageState]:
    """The images of the roles of these nodes, which are built before any node is drained."""
    gpus = with_offers(driver, get_gpus(host, spec.gpus.mode, reporter=reporter))
    roles = sorted({node.labels.get(LABEL_ROLE, "") for node in state.nodes if node.name in found.names})
    recipes = {role: role_recipe(driver, spec, role, gpus) for role in roles}
    return MissingImages(recipes=recipes, host_ports=spec.network.host_ports).build(driver, host, reporter)


def _replace(
    driver: Driver, name: str, images: Mapping[str, ImageState], order: UpOrder, host: Host, reporter: Reporter
) -> UpResult:
    """Replace one node, on which no job runs any more."""
    state = observe_cluster(driver, order.spec.name)
    node = state.node(name)
    if node is None or name not in find_older(driver, state):
        return UpResult(changed=(), spec=order.spec)
    reporter.note(f"replacing {name}")
    keeps = _keeps(driver, state, name, images, order, reporter)
    policy = order.policy
    if policy.drain_s is None and not policy.force:
        policy = replace(policy, drain_s=DRAIN_S)
    lost = (name,) if queue_of(node, spec_of(state)) and not keeps else ()  # what has come into it meanwhile counts
    leaves = [Leave(state=state, departure=Departure(nodes=(name,), lost=lost))]
    once = replace(order, again=(name,), verify=False, policy=replace(policy, drain_s=None), seen=None)
    with ExitStack() as stack:
        stack.enter_context(drained(driver, lambda: leaves, policy, reporter=reporter))
        stack.enter_context(leaving(driver, leaves, policy, reporter=reporter))
        stack.enter_context(replacing(driver, node, spec_of(state), host, keeps=keeps, reporter=reporter))
        return cluster_up(driver, once, host, reporter=reporter)


def _keeps(
    driver: Driver,
    state: ClusterState,
    name: str,
    images: Mapping[str, ImageState],
    order: UpOrder,
    reporter: Reporter,
) -> bool:
    """Whether a node has a queue that goes on in the new one.

    Raises:
        UsageError: It has one that the new image could not read, and in which there are jobs.
    """
    node = state.node(name)
    queue = queue_of(node, spec_of(state)) if node else None
    if node is None or queue is None:
        return False
    if can_keep(driver, name, queue, images[node.labels.get(LABEL_ROLE, "")]):
        return True
    waiting = count_kept(driver, name, queue)
    evidence = f"{queue.service} of the new image is another release, which cannot read it; jobs in it: {waiting}"
    if waiting and not order.policy.force:
        again = name_cluster("gpuprov cluster up --renew", state.name)
        raise UsageError(
            f"the queue on {name} would be lost with it",
            evidence=evidence,
            fix=f"wait until it is empty: {name_cluster('gpuprov jobs', state.name)}; or give it up: {again} --force",
        )
    if waiting:
        reporter.warn(f"the queue on {name} is lost: {evidence}")
    return False
