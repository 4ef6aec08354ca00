"""The partitions that a spec has: those that it lists, or the one that all nodes are in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import PartitionSpec

if TYPE_CHECKING:
    from gpuprov.shapes.cluster_spec import ClusterSpec


def partitions_of(spec: ClusterSpec) -> tuple[PartitionSpec, ...]:
    """All partitions; that which jobs get that name none is the first."""
    slurm = spec.slurm
    listed = slurm.partitions or (PartitionSpec(name=slurm.partition),)
    default = next((one for one in listed if one.default), listed[0])
    return (changed(default, default=True), *(one for one in listed if one.name != default.name))
