"""What to type after `cluster up`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.names import name_cluster
from gpuprov.planes.registry import planes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.planes.across.rows import NodeRow
    from gpuprov.spec.models import ClusterSpec


def next_steps(spec: ClusterSpec, rows: Sequence[NodeRow]) -> str:
    """A few commands that work on the cluster as it is."""
    if not rows:
        return ""
    first = rows[0].name
    lines = ["next:"]
    for plane in planes_of(row.role for row in rows):
        lines += [f"  {step}" for step in plane.next_steps(spec, [row.name for row in rows if row.role == plane.name])]
    lines += [f"  gpuprov shell {first}", "  gpuprov cluster status", "  gpuprov cluster down"]
    return name_cluster("\n".join(lines), spec.name)
