"""What to type after `cluster up`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.names import name_cluster
from gpuprov.roles.registry import roles_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.nodes import NodeRow


def next_steps(spec: ClusterSpec, rows: Sequence[NodeRow]) -> str:
    """A few commands that work on the cluster as it is: in nodes that run, with jobs where one of them gives work."""
    if not rows:
        return ""
    running = [row.name for row in rows if row.status == "running"]
    lines = ["next:"]
    for role in roles_of(row.role for row in rows if row.name in running):
        controllers = role.controller_names(spec)
        if not controllers or any(controller in running for controller in controllers):
            names = [row.name for row in rows if row.role == role.name and row.name in running]
            lines += [f"  {step}" for step in role.next_steps(spec, names)]
    lines += [f"  gpuprov shell {name}" for name in running[:1]]
    lines += ["  gpuprov cluster status", "  gpuprov cluster down"]
    return name_cluster("\n".join(lines), spec.name)
