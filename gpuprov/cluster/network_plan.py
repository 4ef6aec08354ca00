"""The cluster's two networks as they are to be, and what they and the firewall's rules lack: pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpuprov.cluster.drift import changed_settings
from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import LABEL_BEGUN, LABEL_CLUSTER, LABEL_HOST_PORTS, LABEL_HOSTS, LABEL_VERSION
from gpuprov.drivers.networks import NetworkRequest
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec, OverlaySpec
from gpuprov.shapes.node import Attachment
from gpuprov.spec.addressing import gateway, mac
from gpuprov.spec.host_ports import describe_host_ports
from gpuprov.spec.overlay import overlay_bridge, vni_of
from gpuprov.spec.serialize import dump_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from ipaddress import IPv4Interface

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.shapes.cluster_spec import NetworkSpec
    from gpuprov.shapes.node import Settings


@dataclass(frozen=True, kw_only=True)
class NetworkPlan:
    """What the networks lack.

    Attributes:
        create: Those to make.
        complete: Those that a killed run made and did not complete.
    """

    create: tuple[NetworkRequest, ...] = ()
    complete: tuple[NetworkRequest, ...] = ()

    @property
    def requests(self) -> tuple[NetworkRequest, ...]:
        """All that are to be completed."""
        return (*self.create, *self.complete)

    def lines(self) -> tuple[str, ...]:
        """One line for each change."""
        return (
            *(f"create network {request.name} {request.address or '(nodes only)'}" for request in self.create),
            *(f"complete network {request.name} {request.address}" for request in self.complete),
        )


def network_requests(spec: ClusterSpec, *, version: str) -> tuple[NetworkRequest, ...]:
    """The two networks of a cluster, that with NAT first."""
    network = changed(spec.network, host_ports=())  # they can change
    begun = ClusterSpec(name=spec.name, nodes=NodesSpec(prefix=spec.nodes.prefix), network=network)
    labels = {LABEL_CLUSTER: spec.name, LABEL_VERSION: version, LABEL_BEGUN: dump_spec(begun)}
    if spec.hosts:
        labels[LABEL_HOSTS] = ",".join(host.name for host in spec.hosts)
    ports = describe_host_ports(spec.network.host_ports)
    return (
        NetworkRequest(
            name=spec.network.bridge,
            labels={**labels, **({LABEL_HOST_PORTS: ports} if ports else {})},
            address=str(gateway(spec.network)),
        ),
        NetworkRequest(
            name=spec.network.private_bridge,
            labels=labels,
            subnet=spec.network.private_subnet,
            beside=overlay_bridge(vni_of(spec)) if spec.hosts else spec.network.bridge,
        ),
    )


def plan_networks(spec: ClusterSpec, state: ClusterState, *, version: str) -> NetworkPlan:
    """Compare the networks with what the spec asks for.

    Raises:
        UsageError: Another subnet is asked for than a network was made with.
    """
    wanted = network_requests(spec, version=version)
    present = {network.name: network for network in state.own_networks}
    settled = state.settled
    as_settled = settled is not None and _lasting(settled.network) == _lasting(spec.network)
    complete = []
    for request in wanted:
        found = present.get(request.name)
        if found is None or found.address == request.address:
            continue
        if not as_settled:  # else it was changed outside gpuprov
            raise UsageError(
                f"the address of the network {request.name} differs from the spec",
                evidence=f"it has {found.address}, the spec has {request.address}",
                fix=f"gpuprov cluster down {spec.name}, then bring it up with the new subnet",
            )
        if found.address is None and state.recorded is None:
            complete.append(request)
    create = tuple(request for request in wanted if request.name not in present)
    return NetworkPlan(create=create, complete=tuple(complete))


def _lasting(network: NetworkSpec) -> NetworkSpec:
    """The bridges and subnets alone: what carries them to other hosts is no part of the networks of one."""
    return changed(network, overlay=OverlaySpec(), host_ports=())


def plan_repairs(
    spec: ClusterSpec,
    state: ClusterState,
    plan: NetworkPlan,
    *,
    version: str,
    expect: Callable[[NetworkRequest], Settings],
) -> tuple[tuple[NetworkRequest, str], ...]:
    """The networks of the cluster that were changed, each with its differences in words; none that the plan has."""
    planned = {request.name for request in plan.requests}
    present = {network.name: network for network in state.own_networks if network.name not in planned}
    found = [
        (request, "; ".join(changed_settings(present[request.name].settings, expect(request)).values()))
        for request in network_requests(spec, version=version)
        if request.name in present
    ]
    return tuple((request, words) for request, words in found if words)


def attach(spec: ClusterSpec, name: str, addresses: Mapping[str, IPv4Interface]) -> tuple[Attachment, ...]:
    """A node's interfaces, for which it has addresses: `eth0` on the NAT bridge and `eth1` on the private one."""
    places: tuple[tuple[str, str, Literal["veth", "macvlan"], str | None], ...] = (
        ("eth0", spec.network.bridge, "veth", str(gateway(spec.network).ip)),
        ("eth1", spec.network.private_bridge, "macvlan", None),
    )
    return tuple(
        Attachment(
            network=network,
            interface=interface,
            kind=kind,
            address=str(addresses[interface]),
            mac=mac(spec.name, name, interface),
            gateway=router,
        )
        for interface, network, kind, router in places
        if interface in addresses
    )


def open_networks(networks: Iterable[NetworkState], clusters: Collection[str]) -> tuple[str, ...]:
    """The networks of these clusters that lack rules, as after a reboot: others reach their nodes, or they the host."""
    theirs = (network for network in networks if network.labels.get(LABEL_CLUSTER) in clusters)
    return tuple(network.name for network in theirs if network.isolated is False or network.guarded is False)


def networks_without_rules(spec: ClusterSpec, state: ClusterState) -> tuple[str, ...]:
    """The networks of a cluster that lack rules, or are to open other ports of the host."""
    others = (network.name for network, _, _ in changed_ports(spec, state))
    return tuple(dict.fromkeys((*open_networks(state.networks, {spec.name}), *others)))


def plan_rules(spec: ClusterSpec, state: ClusterState) -> tuple[str, ...]:
    """The rules that networks of the cluster lack, one line for each of them, and for other ports of the host."""
    found = [network for network in state.own_networks if network.name in open_networks(state.networks, {spec.name})]
    return (
        *(
            f"isolate network {network.name} from other clusters"
            if network.isolated is False
            else f"isolate the host from nodes on network {network.name}"
            for network in found
        ),
        *(
            f"open ports of the host to nodes on network {network.name}: {ports or 'none'} (until now {had or 'none'})"
            for network, ports, had in changed_ports(spec, state)
        ),
    )


def changed_ports(spec: ClusterSpec, state: ClusterState) -> tuple[tuple[NetworkState, str, str], ...]:
    """The cluster's network with NAT, the ports of the host that it is to have, and those it has; none where alike."""
    ports = describe_host_ports(spec.network.host_ports)
    own = ((network, network.labels.get(LABEL_HOST_PORTS, "")) for network in state.own_networks)
    return tuple((network, ports, had) for network, had in own if network.name == spec.network.bridge and had != ports)
