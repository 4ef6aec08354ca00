"""What a host offers to more nodes of a cluster, beside what it has of it; reads only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuprov.cluster.host_gpus import get_gpus, with_offers
from gpuprov.cluster.leases import Neighbours, read_leases
from gpuprov.cluster.offer import make_offer
from gpuprov.cluster.overlay_request import underlay_address
from gpuprov.cluster.placement import Place
from gpuprov.cluster.room import find_room
from gpuprov.cluster.state import observe_cluster, with_current_gpus
from gpuprov.cluster.surroundings import Surroundings
from gpuprov.cluster.taken import Taken
from gpuprov.fleet.member.host_part import HostPart, look_at_part
from gpuprov.shapes.cluster_spec import HostSpec
from gpuprov.shapes.limits import NODES_MAX

if TYPE_CHECKING:
    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.node_order import NodeOrder


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
    """What is there of a cluster, with what the host offers to more nodes, and how it is reached by the other hosts.

    Raises:
        GpuprovError: Its GPUs or its address are unknown.
    """
    gpus = with_offers(driver, get_gpus(host, spec.gpus.mode, reporter=reporter))
    found = observe_cluster(driver, spec.name)
    state, seen = with_current_gpus(found, gpus), look_at_part(driver, found)
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
    return replace(
        seen,
        offer=make_offer(spec, state, place, room, most=NODES_MAX),
        address=address,
        mtu=mtu,
        tunnel_key=key,
        taken=_taken(driver, host, state),
    )


def look_for_one(driver: Driver, order: NodeOrder, host: Host, *, reporter: Reporter) -> HostPart:
    """What is there of the cluster of an ordered node, with what the host offers to it.

    Raises:
        GpuprovError: Its GPUs are unknown.
    """
    found = observe_cluster(driver, order.cluster)
    seen = look_at_part(driver, found)
    if seen.spec is None:
        return seen
    gpus = with_offers(driver, get_gpus(host, order.gpu_mode, reporter=reporter))
    state = with_current_gpus(found, gpus)
    leases = read_leases((*state.nodes, *state.others), engine=driver.name)
    place = Place(host=host.name, gpus=gpus, leases=leases, claims=Neighbours(host).claims(driver.name))
    room = find_room(driver, host.limits(), promised_gib=(seen.spec.nodes.memory_gib or 0) * len(state.nodes))
    return replace(seen, offer=make_offer(seen.spec, state, place, room, most=1, order=order))


def _taken(driver: Driver, host: Host, state: ClusterState) -> Taken:
    """Nothing where the cluster is there already: it has what it has."""
    return Taken() if state.own_networks else Surroundings(driver, host, state).taken
