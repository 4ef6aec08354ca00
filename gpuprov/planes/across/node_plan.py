"""What `create-node` would make: its cluster is observed, the node is designed or refused, and nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.cluster.find_node import get_source
from gpuprov.cluster.images import get_named_image
from gpuprov.cluster.leases import read_leases
from gpuprov.cluster.network_plan import plan_networks
from gpuprov.cluster.nodes import image_of
from gpuprov.cluster.ordered_design import design_ordered
from gpuprov.cluster.ordered_spec import first_draft, with_order
from gpuprov.cluster.placement import Place
from gpuprov.cluster.replacements import ghosts_of
from gpuprov.cluster.room import ask_limits, refuse_without_room
from gpuprov.cluster.share import look_and_plan_share, require_account
from gpuprov.cluster.slices import spec_on
from gpuprov.cluster.state import with_current_gpus
from gpuprov.cluster.surroundings import Surroundings
from gpuprov.cluster.taken_name import refuse_taken_name
from gpuprov.cluster.whole import is_elsewhere, recorded_host, recorded_whole
from gpuprov.core.errors import UsageError
from gpuprov.core.names import fold, name_cluster
from gpuprov.planes.across.hold import Leave
from gpuprov.planes.across.ordered_role import decide_role, refuse_unreachable
from gpuprov.planes.base import Departure
from gpuprov.planes.registry import check_spec, plane_of, settle_draft, shared_mounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.cluster.images import MissingImages
    from gpuprov.cluster.network_plan import NetworkPlan
    from gpuprov.cluster.share import SharePlan
    from gpuprov.cluster.state import ClusterState, EngineState
    from gpuprov.core.errors import GpuprovError
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.allocate import Claims
    from gpuprov.gpu.models import HostGpus
    from gpuprov.host.base import Host
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.engine import ImageState
    from gpuprov.shapes.node_order import NodeOrder


@dataclass(frozen=True, kw_only=True)
class NodePlan:
    """A node that was ordered, and its prerequisites.

    Attributes:
        state: The cluster without an unfinished node of that name, which would hold its address and its GPUs.
        leaves: That node, if there is one.
        images: That of its role, which has the account of jobs, or the one that was asked for; none before it is found.
        missing: The image of its role, where the engine has none.
        share: The folder that its cluster shares.
        silent: Why engines do not respond whose networks this one has to keep clear of.
    """

    state: ClusterState
    leaves: list[Leave]
    spec: ClusterSpec
    networks: NetworkPlan
    design: NodeDesign
    images: Mapping[str, ImageState]
    share: SharePlan
    silent: Mapping[str, GpuprovError]
    missing: MissingImages | None = None


def cluster_of(engine: EngineState, driver: Driver, order: NodeOrder, gpus: HostGpus) -> ClusterState:
    """The node's cluster as it is; refuses a name that is taken."""
    state = with_current_gpus(engine.cluster(order.cluster), gpus)
    refuse_taken_name(order, state, engine=driver.name)
    return state


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
            fix=name_cluster("let that end first: gpuprov cluster up", state.name),
        )


def look_and_plan_node(
    driver: Driver, order: NodeOrder, found: ClusterState, host: Host, gpus: HostGpus, claims: Claims
) -> NodePlan:
    """Choose what the order leaves open, design the node, and refuse what the host cannot carry.

    Args:
        driver: The engine.
        order: The node.
        found: Its cluster as it is.
        host: The machine.
        gpus: Its GPUs.
        claims: What its other engines hold, and who waits.

    Raises:
        GpuprovError: It cannot be made as it was ordered.
    """
    if not order.agreed:
        _refuse_over_hosts(found)
    _refuse_elsewhere(order, found)
    _refuse_while_replaced(found)
    source = None if order.source is None else get_source(driver, order.source, copy=order.name)
    leaves = _find_unfinished(order, found)
    state = replace(found, nodes=tuple(node for node in found.nodes if node.name != order.name))
    around = Surroundings(driver, host, state)
    settled = state.spec or _settle_first(order, state, host, around)
    whole = recorded_whole(found)
    settled = spec_on(settled, recorded_host(found)) if whole else settled
    spec = with_order(settled, decide_role(order, settled, state), order)
    check_spec(spec)
    around.refuse_taken_by_others(spec)
    refuse_unreachable(order, spec)
    plane_of(spec.nodes.role).refuse_joining(order.name, spec, state)
    networks = plan_networks(spec, state, version=__version__)
    leases = read_leases((*state.nodes, *state.others), engine=claims.engine)
    taken = whole.addresses_beside(recorded_host(found)) if whole else {}
    limits = ask_limits(driver, host, nodes=len(state.nodes) + 1)
    shared = shared_mounts(spec)
    place = Place(host=host.name, gpus=gpus, leases=leases, claims=claims, shared=shared, taken=taken, limits=limits)
    design = design_ordered(order, spec, state, place)
    image = None if order.image is None else get_named_image(driver, order.image)
    image = image if source is None else image_of(source)
    share = look_and_plan_share(driver, host, settled, state, [design], around)
    if share.folder and image and plane_of(spec.nodes.role).shares:
        require_account([order.name], [image.labels], fix="use the image of the role; or --role plain")
    refuse_without_room(driver, host, nodes=1)
    own = found.taken_addresses().keys() - state.taken_addresses().keys()  # that node may run, and answer
    if not networks.requests and design.address and design.address not in own:
        _refuse_answering(host, design.address, spec, engine=driver.name)
    return NodePlan(
        state=state,
        leaves=leaves,
        spec=spec,
        networks=networks,
        design=design,
        images={design.role: image} if image else {},
        share=share,
        silent=around.silent,
    )


def _settle_first(order: NodeOrder, state: ClusterState, host: Host, around: Surroundings) -> ClusterSpec:
    """The spec of a cluster that begins with a node."""
    draft = first_draft(order)
    role = decide_role(order, draft.spec, state)
    spec = settle_draft(replace(draft, spec=with_order(draft.spec, role, None)), state, host, around)
    return with_order(spec, draft.spec.nodes.role, None)


def _refuse_answering(host: Host, address: str, spec: ClusterSpec, *, engine: str) -> None:
    if host.answers(address, spec.network.bridge):
        raise UsageError(
            f"the address {address} is in use",
            evidence=f"something on {spec.network.bridge} that {engine} does not know responds at this address",
            fix="choose another address; those of the nodes: gpuprov list",
        )
