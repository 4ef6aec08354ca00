"""What it means for jobs that the host of the node that gives them out is unreachable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.fleet.hosted_cluster import controller_of
from gpuprov.roles.registry import role_of

if TYPE_CHECKING:
    from gpuprov.fleet.hosted_cluster import SpanningCluster


def tell_lost_service(seen: SpanningCluster) -> str:
    """Whether nodes take new jobs while the host of the usual node is unreachable; empty where that is not away."""
    if seen.spec is None:
        return ""
    role, homes = role_of(seen.spec.nodes.role), seen.whole.homes
    controllers = role.controller_names(seen.spec)
    lost = [controller for controller in controllers if homes.get(controller) in seen.away]
    if not lost or lost[0] != controllers[0]:
        return ""
    where = " and ".join(f"{controller} on {homes[controller]}" for controller in lost)
    silent = f"the {role.title} service in {where} does not answer"
    controller = controller_of(seen)
    if controller in lost:
        return f"no node of cluster {seen.name} takes new jobs: {silent}; running jobs on the other nodes continue"
    return f"{silent}: {controller} on {homes.get(controller or '')} takes its place, and new jobs start"
