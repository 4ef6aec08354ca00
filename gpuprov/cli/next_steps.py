"""What to type after `cluster up`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.planes.rows import NodeRow
    from gpuprov.spec.models import ClusterSpec


def next_steps(spec: ClusterSpec, rows: Sequence[NodeRow]) -> str:
    """A few commands that work on the cluster as it is."""
    if not rows:
        return ""
    first = rows[0].name
    slurm = [row.name for row in rows if row.role == "slurm"]
    lines = ["next:"]
    if slurm:
        lines.append(f"  gpuprov exec {slurm[0]} -- srun -N{len(slurm)} hostname")
        lines.append(f"  gpuprov exec {slurm[0]} -- srun --gres=gpu:1 python3 -m smoke_kernels matmul")
    name = "" if spec.name == "lab" else f" {spec.name}"
    lines += [f"  gpuprov shell {first}", f"  gpuprov cluster status{name}", f"  gpuprov cluster down{name}"]
    return "\n".join(lines)
