"""What a host has of a cluster; reads only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.taken import Taken
from gpuprov.cluster.whole import recorded_host, recorded_whole
from gpuprov.planes.across.rows import found_rows, read_work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.members import Offer
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
