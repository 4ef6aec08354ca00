"""What it means for jobs that the host of the node that gives them out is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.fleet.hosted_cluster import head_of
from gpuprov.roles.registry import plane_of

if TYPE_CHECKING:
    from gpuprov.fleet.hosted_cluster import SpanningCluster


def tell_lost_service(seen: SpanningCluster) -> str:
    """Whether nodes take new jobs while the host of the usual node is away; empty where that is not away."""
    if seen.spec is None:
        return ""
    plane, homes = plane_of(seen.spec.nodes.role), seen.whole.homes
    heads = plane.head_names(seen.spec)
    lost = [head for head in heads if homes.get(head) in seen.away]
    if not lost or lost[0] != heads[0]:
        return ""
    where = " and ".join(f"{head} on {homes[head]}" for head in lost)
    silent = f"the {plane.title} service in {where} does not answer"
    head = head_of(seen)
    if head in lost:
        return f"no node of cluster {seen.name} takes new jobs: {silent}; running jobs on the other nodes continue"
    return f"{silent}: {head} on {homes.get(head or '')} takes its place, and new jobs start"
