"""What each host has to do for a cluster that spans hosts: pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import OverlaySpec, PlacementSpec, UnreachableSpec
from gpuprov.spec.variables import overlay_variables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.cluster_spec import ClusterSpec

# What connects processes on several nodes takes the first interface else: eth0, by which no other host is reached.
BETWEEN_NODES: Final = ("NCCL_SOCKET_IFNAME=eth1", "GLOO_SOCKET_IFNAME=eth1")


@dataclass(frozen=True, kw_only=True)
class Slice:
    """A host's part of a cluster.

    Attributes:
        spec: The whole cluster's, as it is recorded on every host.
        host: The host's name in it.
        nodes: Names of the spec's nodes that it is to have, in their order.
    """

    spec: ClusterSpec
    host: str
    nodes: tuple[str, ...] = ()

    @property
    def local_spec(self) -> ClusterSpec:
        """The spec as this host carries it out: its engine, and nodes that speak to others by the private network."""
        return spec_on(self.spec, self.host)


def slice_cluster(spec: ClusterSpec, placed: Mapping[str, str]) -> tuple[Slice, ...]:
    """One slice for each host of the spec, in its order.

    Args:
        placed: The host of each node, as `place_nodes` gives it.
    """
    nodes: dict[str, list[str]] = {host.name: [] for host in spec.hosts}
    for node, home in placed.items():
        if home in nodes:  # else it is on a host that the spec does not name any more
            nodes[home].append(node)
    return tuple(Slice(spec=spec, host=host, nodes=tuple(names)) for host, names in nodes.items())


def spec_on(spec: ClusterSpec, host: str) -> ClusterSpec:
    """The spec as one of its hosts carries it out."""
    there = spec.host(host)
    environment = overlay_variables(BETWEEN_NODES, spec.nodes.environment)
    engine = there.engine if there and there.engine else spec.engine
    return changed(spec, engine=engine, nodes=changed(spec.nodes, environment=environment))


def spec_alone(spec: ClusterSpec) -> ClusterSpec:
    """The spec without what it says of hosts: what one host can check of it, such as the sources of mounts."""
    network = changed(spec.network, overlay=OverlaySpec())
    return changed(spec, hosts=(), placement=PlacementSpec(), unreachable=UnreachableSpec(), network=network)
