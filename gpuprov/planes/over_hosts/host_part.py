"""What a host has of a cluster that spans hosts, and what it offers to more nodes of it; reads only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpuprov.cluster.choice import Taken
from gpuprov.cluster.host_gpus import get_gpus, with_offers
from gpuprov.cluster.leases import Neighbours, read_leases
from gpuprov.cluster.offer import make_offer
from gpuprov.cluster.overlay_request import underlay_address
from gpuprov.cluster.placement import Place
from gpuprov.cluster.room import find_room
from gpuprov.cluster.state import observe_cluster, with_current_gpus
from gpuprov.cluster.surroundings import Surroundings
from gpuprov.cluster.whole import recorded_host, recorded_whole
from gpuprov.planes.across.rows import found_rows, read_work
from gpuprov.shapes.cluster_spec import HostSpec
from gpuprov.shapes.limits import NODES_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.members import Offer
    from gpuprov.shapes.node_order import NodeOrder
    from gpuprov.shapes.nodes import NodeRow
    from gpuprov.shapes.whole import WholeCluster


@dataclass(frozen=True, kw_only=True)
class HostPart:
    """A host's part of a cluster.

    Attributes:
        engine: Which has it, or would have it.
        known_as: The host's name in the cluster, as recorded; empty where nothing is.
        exists: Whether anything of the cluster is on this host.
        spec: The whole cluster's, as recorded.
        whole: The nodes of all hosts, as recorded.
        record: Fingerprint of both, where another host told it in place of them; else empty.
        rows: The nodes on this host.
        words: The word of its plane for each node of which the plane knows here, also for those on other hosts.
        offer: What it offers to more nodes, where that was asked.
        address: Its address on the network between the hosts, and `mtu` that of its link there; where asked.
        tunnel_key: Its public key for the encrypted overlay; empty where it has none, or that was not asked.
        taken: What a new cluster has to keep clear of, where that was asked.
    """

    engine: str
    known_as: str = ""
    exists: bool = False
    spec: ClusterSpec | None = None
    whole: WholeCluster | None = None
    record: str = ""
    rows: tuple[NodeRow, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    offer: Offer | None = None
    address: str = ""
    mtu: int = 0
    tunnel_key: str = ""
    taken: Taken = field(default_factory=Taken)


def look_at_part(driver: Driver, cluster: str) -> HostPart:
    """What is there of a cluster."""
    state = observe_cluster(driver, cluster)
    words = read_work(driver, state)
    return HostPart(
        engine=driver.name,
        known_as=recorded_host(state),
        exists=state.exists,
        spec=state.spec,
        whole=recorded_whole(state),
        rows=found_rows(driver, state, words),
        words=words,
    )


@dataclass(frozen=True, kw_only=True)
class Way:
    """How the host is reached by the other hosts.

    Attributes:
        internal_ip: Its address on the network between the hosts, where the spec says it.
        ssh_connection: SSH_CONNECTION there.
    """

    internal_ip: str = ""
    ssh_connection: str = ""


def look_for_more(driver: Driver, spec: ClusterSpec, host: Host, way: Way, *, reporter: Reporter) -> HostPart:
    """The same, with what the host offers to more nodes, and how it is reached by the other hosts.

    Raises:
        GpuprovError: Its GPUs or its address cannot be told.
    """
    gpus = with_offers(driver, get_gpus(host, spec.gpus.mode, reporter=reporter))
    state = with_current_gpus(observe_cluster(driver, spec.name), gpus)
    seen = look_at_part(driver, spec.name)
    staying = [node for node in state.nodes if node.complete]  # what a killed run left is removed before new ones
    leases = read_leases((*staying, *state.others), engine=driver.name)
    place = Place(host=host.name, gpus=gpus, leases=leases, claims=Neighbours(host).claims(driver.name))
    promised_gib = (spec.nodes.memory_gib or 0) * len(staying)
    room = find_room(driver, host.limits(), promised_gib=promised_gib)
    address, mtu, key = "", 0, ""
    if spec.network.overlay.type != "none":
        known = HostSpec(name=host.name, internal_ip=way.internal_ip or None)
        address = underlay_address(known, way.ssh_connection)
        mtu = host.overlays.underlay_mtu(address)
    if spec.network.overlay.encryption == "wireguard":
        key = host.overlays.find_key(spec.name)
    return HostPart(
        engine=driver.name,
        known_as=seen.known_as,
        exists=seen.exists,
        spec=seen.spec,
        whole=seen.whole,
        rows=seen.rows,
        words=seen.words,
        offer=make_offer(spec, state, place, room, most=NODES_MAX),
        address=address,
        mtu=mtu,
        tunnel_key=key,
        taken=_taken(driver, host, state),
    )


def look_for_one(driver: Driver, order: NodeOrder, host: Host, *, reporter: Reporter) -> HostPart:
    """What is there of the cluster of an ordered node, with what the host offers to it.

    Raises:
        GpuprovError: Its GPUs cannot be told.
    """
    seen = look_at_part(driver, order.cluster)
    if seen.spec is None:
        return seen
    gpus = with_offers(driver, get_gpus(host, order.gpu_mode, reporter=reporter))
    state = with_current_gpus(observe_cluster(driver, order.cluster), gpus)
    leases = read_leases((*state.nodes, *state.others), engine=driver.name)
    place = Place(host=host.name, gpus=gpus, leases=leases, claims=Neighbours(host).claims(driver.name))
    room = find_room(driver, host.limits(), promised_gib=(seen.spec.nodes.memory_gib or 0) * len(state.nodes))
    return replace(seen, offer=make_offer(seen.spec, state, place, room, most=1, order=order))


def _taken(driver: Driver, host: Host, state: ClusterState) -> Taken:
    """Nothing where the cluster is there already: it has what it has."""
    return Taken() if state.own_networks else Surroundings(driver, host, state).taken
