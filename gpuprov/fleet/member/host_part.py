"""What a host has of a cluster; reads only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpuprov.cluster.full_disks import find_full_disks
from gpuprov.cluster.taken import Taken
from gpuprov.cluster.whole import recorded_host, recorded_whole
from gpuprov.drivers.foreign import copies_of_cluster
from gpuprov.lifecycle.rows import found_rows, read_work
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
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
        words: The word of its role for each node of which the role knows here, also for those on other hosts.
        offer: What it offers to more nodes, where that was asked.
        address: Its address on the network between the hosts, and `mtu` that of its link there; where asked.
        tunnel_key: Its public key for the encrypted overlay; empty where it has none, or that was not asked.
        taken: What a new cluster has to keep clear of, where that was asked.
        shared_folder: Of this host, which its nodes share; empty for none, or where another host told.
        copies: A sentence for each copy of a node that gpuprov did not make.
        full_disks: A sentence for each disk that is nearly full, where that was asked.
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
    shared_folder: str = ""
    copies: tuple[str, ...] = ()
    full_disks: tuple[str, ...] = ()


def look_at_part(driver: Driver, state: ClusterState, *, damaged: bool = False) -> HostPart:
    """What is there of a cluster that was observed a moment ago.

    Args:
        driver: The engine.
        state: The cluster.
        damaged: Whether a spec that cannot be read is none, and nothing is told of other hosts.

    Raises:
        SpecError: It cannot be read.
    """
    words = read_work(driver, state)
    copies = copies_of_cluster(state.name, state.others)
    return HostPart(
        engine=driver.name,
        known_as=recorded_host(state),
        exists=state.exists,
        spec=None if damaged and isinstance(state.recorded, SpecError) else state.spec,
        whole=None if damaged else recorded_whole(state),
        rows=found_rows(driver, state, words),
        words=words,
        shared_folder=state.shared_folder,
        copies=tuple(
            f"{one.name} is {one.copy_of}; it is not part of the cluster and is not changed" for one in copies
        ),
    )


def with_disks(part: HostPart, driver: Driver, host: Host) -> HostPart:
    """The same with the disks that are nearly full."""
    return replace(part, full_disks=find_full_disks(driver, host, part.shared_folder))
