"""`cluster status`: what the hosts of a cluster have of it, this machine in process and others over ssh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.fleet.here import find_over_hosts, observe_here
from gpuprov.fleet.hosted_cluster import SpanningCluster
from gpuprov.fleet.member.host_part import look_at_part, with_disks
from gpuprov.link.address import RemoteMachine
from gpuprov.shapes.whole import WholeCluster

if TYPE_CHECKING:
    from gpuprov.fleet.fleet import Fleet


def look_at_cluster(fleet: Fleet, name: str) -> SpanningCluster:
    """What there is of a cluster, with the disks that are nearly full; changes nothing.

    Raises:
        GpuprovError: Nobody answers who may have it.
    """
    seen = find_over_hosts(fleet, name, disks=True)
    if seen is None and not fleet.works_here:  # hosts have said that they have no such cluster
        return SpanningCluster(name=name, spec=None, whole=WholeCluster(), machines={}, parts={})
    return seen or _look_here(fleet, name)


def _look_here(fleet: Fleet, name: str) -> SpanningCluster:
    here = fleet.here
    driver, state = observe_here(fleet, name)
    part = with_disks(look_at_part(driver, state, damaged=True), driver, here)
    return SpanningCluster(
        name=name,
        spec=part.spec,
        whole=WholeCluster(),
        machines={here.name: RemoteMachine(name=here.name, address="")},
        parts={here.name: part},
        here_alone=True,
    )
