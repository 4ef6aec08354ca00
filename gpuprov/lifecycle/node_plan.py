"""What `create-node` would make: its cluster is observed, the node is designed or refused, and nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.cluster.find_node import get_source
from gpuprov.cluster.images import get_named_image
from gpuprov.cluster.network_plan import plan_networks
from gpuprov.cluster.nodes import image_of
from gpuprov.cluster.ordered_node import design_ordered, first_draft, refuse_taken_name, with_order
from gpuprov.cluster.replacements import ghosts_of
from gpuprov.cluster.room import refuse_without_room
from gpuprov.cluster.scrubbed import refuse_shared
from gpuprov.cluster.share import look_and_plan_share, require_account
from gpuprov.cluster.slices import spec_on
from gpuprov.cluster.whole import is_elsewhere, recorded_host, recorded_whole
from gpuprov.core.errors import UsageError
from gpuprov.core.names import fold, name_cluster
from gpuprov.lifecycle.out_of_service import Leave
from gpuprov.roles.departure import Departure
from gpuprov.roles.registry import PLAIN, fill, find_role_images, judge, role_of
from gpuprov.shapes.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.cluster.images import MissingImages
    from gpuprov.cluster.network_plan import NetworkPlan
    from gpuprov.cluster.observed import Observed
    from gpuprov.cluster.share import SharePlan
    from gpuprov.cluster.state import ClusterState
    from gpuprov.machine.base import Host
    from gpuprov.roles.registry import Roles
    from gpuprov.shapes.choices import RoleName
    from gpuprov.shapes.engine import ImageState
    from gpuprov.shapes.node_order import NodeOrder


@dataclass(frozen=True, kw_only=True)
class NodePlan:
    """A node that was ordered, and its prerequisites.

    Attributes:
        leaves: The unfinished node of that name, if there is one.
        observed: The cluster without that node, which would hold its address and its GPUs.
        images: That of its role, which has the account of jobs, or the one that was asked for; none before it is found.
        missing: The image of its role, where the engine has none.
        share: The folder that its cluster shares.
    """

    leaves: list[Leave]
    observed: Observed
    spec: ClusterSpec
    networks: NetworkPlan
    design: NodeDesign
    images: Mapping[str, ImageState]
    share: SharePlan
    missing: MissingImages | None = None

    def with_images(self) -> NodePlan:
        """The same, with the image of its role, if there is one and no other was asked for."""
        if self.images:
            return self
        seen = self.observed
        images, missing = find_role_images(seen.driver, self.spec, [self.design.role], seen.gpus, seen.built)
        return replace(self, images=images, missing=missing)


def _find_unfinished(order: NodeOrder, state: ClusterState) -> list[Leave]:
    """The node of that name, if it is unfinished; it may be in service all the same."""
    node = state.node(order.name)
    departure = Departure(nodes=(order.name,), lost=(order.name,))
    return [Leave(state=state, departure=departure)] if node and not node.complete else []


def _refuse_over_hosts(state: ClusterState) -> None:
    """Refuse a node that the other hosts would not know: they might use its name and its addresses."""
    if recorded_host(state):
        raise UsageError(
            f"no single node can be added to cluster {state.name}, which spans hosts",
            evidence=f"on this host is its part {recorded_host(state)}",
            fix=name_cluster("on the machine that knows the hosts: gpuprov create-node NAME --host HOST", state.name),
        )


def _refuse_elsewhere(order: NodeOrder, state: ClusterState) -> None:
    """Refuse a name that has been given on another host since the hosts were asked."""
    whole = recorded_whole(state)
    if whole and is_elsewhere(state, order.name):
        raise UsageError(
            f"the name {order.name} is taken by a node on {whole.homes[order.name]}",
            evidence=f"as recorded with cluster {state.name} on {recorded_host(state)}",
            fix=f"use another name; or, if that node is gone: {name_cluster('gpuprov cluster up', state.name)}",
        )


def _refuse_while_replaced(state: ClusterState) -> None:
    """Refuse a node that could take the name, the addresses or the GPUs of one that is gone and is to come back."""
    ghosts = [node.name for node in ghosts_of(state)]
    if ghosts:
        raise UsageError(
            f"no node can be added to cluster {state.name} now",
            evidence=f"{fold(ghosts)} was being replaced when a run of `cluster up --renew` was interrupted",
            fix=name_cluster("finish that first: gpuprov cluster up", state.name),
        )


def plan_node(order: NodeOrder, found: Observed, roles: Roles) -> NodePlan:
    """Choose what the order leaves open, design the node, and refuse what the host cannot carry.

    Args:
        order: The node.
        found: Its cluster as it is, and what is around it.
        roles: What nodes are for.

    Raises:
        GpuprovError: It cannot be made as it was ordered.
    """
    driver, host, there = found.driver, found.host, found.state
    refuse_taken_name(order, there, engine=driver.name)
    if not order.agreed:
        _refuse_over_hosts(there)
    _refuse_elsewhere(order, there)
    _refuse_while_replaced(there)
    source = None if order.source is None else get_source(driver, order.source, copy=order.name)
    leaves = _find_unfinished(order, there)
    observed = found.without(order.name)
    state = observed.state
    settled = state.spec or _settle_first(order, observed)
    whole = recorded_whole(there)
    settled = spec_on(settled, recorded_host(there)) if whole else settled
    spec = judge(with_order(settled, decide_role(order, settled, state), order), observed)
    refuse_unreachable(order, spec)
    role_of(spec.nodes.role).refuse_joining(order.name, spec, state)
    networks = plan_networks(spec, state, version=__version__)
    taken = whole.addresses_beside(recorded_host(there)) if whole else {}
    place = observed.place(roles.mounts(spec), nodes=len(state.nodes) + 1)
    design = design_ordered(order, spec, state, replace(place, taken=taken))
    refuse_shared(spec, (design,))
    image = None if order.image is None else get_named_image(driver, order.image)
    image = image if source is None else image_of(source)
    share = look_and_plan_share(observed, settled, [design])
    if share.folder and image and role_of(spec.nodes.role).shares:
        require_account([order.name], [image.labels], fix="use the image of the role; or --role plain")
    refuse_without_room(driver, host, nodes=1)
    own = there.taken_addresses().keys() - state.taken_addresses().keys()  # that node may run, and answer
    if not networks.requests and design.address and design.address not in own:
        _refuse_answering(host, design.address, spec, engine=driver.name)
    return NodePlan(
        leaves=leaves,
        observed=observed,
        spec=spec,
        networks=networks,
        design=design,
        images={design.role: image} if image else {},
        share=share,
    )


def _settle_first(order: NodeOrder, observed: Observed) -> ClusterSpec:
    """The spec of a cluster that begins with a node."""
    draft = first_draft(order)
    role = decide_role(order, draft.spec, observed.state)
    spec = fill(replace(draft, spec=with_order(draft.spec, role, None)), observed)
    return with_order(spec, draft.spec.nodes.role, None)


def _refuse_answering(host: Host, address: str, spec: ClusterSpec, *, engine: str) -> None:
    if host.answers(address, spec.network.bridge):
        raise UsageError(
            f"the address {address} is in use",
            evidence=f"something on {spec.network.bridge} that {engine} does not know responds at this address",
            fix="choose another address; those of the nodes: gpuprov list",
        )


def decide_role(order: NodeOrder, spec: ClusterSpec, state: ClusterState) -> RoleName:
    """The role that was ordered, else the cluster's.

    In a cluster that was never brought up, it is that of the cluster that `cluster up` would make, if the node can be
    one of its own.
    """
    if order.role or state.spec:
        return order.role or spec.nodes.role
    role = role_of(spec.nodes.role)
    joins = state.nodes_of(role.name) or role.begins_with(order.name, spec)
    fits = order.image is None and not (role.first_network and order.network == "private")
    return role.name if joins and fits else PLAIN.name


def explain_plain(order: NodeOrder, role: RoleName, state: ClusterState) -> str:
    """Why the node is plain though nobody said so, in a sentence; empty where there is nothing to explain."""
    if state.spec or order.role is not None or role != PLAIN.name:
        return ""
    usual = role_of(ClusterSpec().nodes.role)
    words = f"{order.name} is a plain node, without {usual.title}"
    if usual.begins_with(order.name, ClusterSpec()):
        return words  # with which a cluster of the usual nodes could not begin
    return f"{words}; for nodes with {usual.title}: {name_cluster('gpuprov cluster up -n 4', order.cluster)}"


def refuse_unreachable(order: NodeOrder, spec: ClusterSpec) -> None:
    """Refuse a node on the private network alone whose role finds its nodes on the other one.

    Raises:
        UsageError: It would have no address there.
    """
    role = role_of(spec.nodes.role)
    if role.first_network and order.network == "private":
        raise UsageError(
            f"{order.name} cannot be a node of {role.title} on the private network only",
            evidence=f"its nodes find each other on {spec.network.bridge}, where this one would have no address",
            fix="omit --network, or use --role plain",
        )
