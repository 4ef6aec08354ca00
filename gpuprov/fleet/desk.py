"""The way to one node of a cluster over hosts: the one that takes its jobs, or any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.nodes_elsewhere import NodesElsewhere
from gpuprov.core.errors import HostNotReady
from gpuprov.core.names import name_cluster
from gpuprov.fleet.hosted_cluster import get_host_of_node, head_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.host.remote.hosts import Hosts
    from gpuprov.host.remote.machine import RemoteMachine


def reach_desk(seen: SpanningCluster, hosts: Hosts) -> Driver:
    """The nodes on the host whose node takes the jobs of a cluster that spans hosts.

    Raises:
        GpuprovError: That host does not answer.
    """
    role = seen.spec.nodes.role if seen.spec else ""
    head = head_of(seen)
    running = [row.host for row in seen.rows if row.role == role and row.status == "running"]
    home = next(iter(running), "") if head is None else seen.whole.homes.get(head, "")
    if home not in seen.parts:
        error = seen.failed.get(home) or next(iter(seen.failed.values()), None)
        raise HostNotReady(
            f"cluster {seen.name} takes no jobs now",
            evidence=f"{head or 'a node that runs'} would be asked, on {home or 'no host that answers'}"
            + (f"\n{error.what}: {error.evidence}" if error else ""),
            fix=error.fix if error else name_cluster("gpuprov cluster up", seen.name),
        )
    return NodesElsewhere.as_driver(hosts, seen.machines[home], seen.name, seen.parts[home].engine)


def reach_node(node: str, known: Mapping[str, RemoteMachine], hosts: Hosts) -> Driver:
    """The nodes beside a node, on the host that has it.

    Raises:
        UsageError: No host that answers has it, or more than one.
        GpuprovError: That host does not answer.
    """
    machine, row = get_host_of_node(node, known, hosts)
    return NodesElsewhere.as_driver(hosts, machine, row.cluster, row.engine)
