"""What a host of a cluster over several says of itself, so that hosts can be compared, and whom its nodes try to reach.

Nothing here changes anything.
"""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Final

from gpuprov.cluster.part import recorded_overlay
from gpuprov.cluster.whole import recorded_host, recorded_whole
from gpuprov.core.errors import GpuprovError
from gpuprov.gpu.driver_files import loaded_version
from gpuprov.shapes.whole import WholeCluster
from gpuprov.spec.overlay import VXLAN_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host

MOST_BESIDE: Final = 16  # nodes of other hosts that each node tries to reach


def look_between(driver: Driver, state: ClusterState, host: Host, *, away: Collection[str]) -> dict[str, Any] | None:
    """What `verify` looks at of this host beside the other ones; None for a cluster of one host alone.

    Args:
        away: Hosts that are known not to answer, and are not tried.
    """
    name = recorded_host(state)
    if not name:
        return None
    try:
        overlay = _look_at_overlay(driver, state, host, away)
    except GpuprovError as error:
        overlay = {"error": f"{error.what}: {error.evidence}"}
    return {"driver": loaded_version(host.root), "overlay": overlay}


def _look_at_overlay(driver: Driver, state: ClusterState, host: Host, away: Collection[str]) -> dict[str, Any]:
    """As verify/checks/between.py reads it; empty where gpuprov makes none."""
    request = recorded_overlay(driver, state)
    if request is None or state.spec is None:
        return {}
    addresses = {one.name: one.internal_ip for one in state.spec.hosts if one.internal_ip}
    if request.tunnel:  # through which the VXLAN reaches them
        whole = recorded_whole(state) or WholeCluster()
        addresses = {end.host: end.address for end in whole.tunnels if end.key}
    others = {name: address for name, address in addresses.items() if name != recorded_host(state)}
    return host.overlays.look(request, others, overhead=VXLAN_BYTES, untried=away)


def nodes_beside(whole: WholeCluster, host: str, running: Collection[str]) -> list[str]:
    """The nodes of other hosts that those of a host try to reach: not too many, and some of each host.

    Args:
        whole: The nodes of all hosts.
        host: Whose nodes try.
        running: Names of the nodes that are known to run.
    """
    homes = list(dict.fromkeys(member.host for member in whole.members))
    at = homes.index(host) + 1 if host in homes else 0
    others = [home for home in (*homes[at:], *homes[:at]) if home != host]
    found = [[member.name for member in whole.on(home) if member.name in running] for home in others]
    turns = chain.from_iterable(zip_longest(*found))
    return sorted([name for name in turns if name is not None][:MOST_BESIDE])
