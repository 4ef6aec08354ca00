"""Which networks of clusters lack rules of the host's firewall, or are to have others: pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_HOST_PORTS
from gpuprov.spec.host_ports import describe_host_ports

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.shapes.cluster_spec import ClusterSpec


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
