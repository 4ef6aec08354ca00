"""The way to the node that takes the jobs of a cluster over hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.nodes_elsewhere import NodesElsewhere
from gpuprov.core.errors import HostNotReady
from gpuprov.core.names import name_cluster
from gpuprov.fleet.hosted_cluster import controller_of

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.link.hosts import Hosts


def asked_of(seen: SpanningCluster, hosts: Hosts) -> Driver:
    """The nodes on the host whose node takes the jobs of a cluster that spans hosts.

    Raises:
        GpuprovError: That host does not answer.
    """
    role = seen.spec.nodes.role if seen.spec else ""
    controller = controller_of(seen)
    running = [row.host for row in seen.rows if row.role == role and row.status == "running"]
    home = next(iter(running), "") if controller is None else seen.whole.homes.get(controller, "")
    if home not in seen.parts:
        error = seen.failed.get(home) or next(iter(seen.failed.values()), None)
        raise HostNotReady(
            f"cluster {seen.name} takes no jobs now",
            evidence=f"{controller or 'a node that runs'} would be asked, on {home or 'no host that answers'}"
            + (f"\n{error.what}: {error.evidence}" if error else ""),
            fix=error.fix if error else name_cluster("gpuprov cluster up", seen.name),
        )
    return NodesElsewhere.as_driver(hosts, seen.machines[home], seen.name, seen.parts[home].engine)
