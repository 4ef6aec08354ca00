"""`Cores=` of gres.conf: which of a node's cores are nearest to each of its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from gpuprov.gpu.nearest_cores import is_number_list, last_number

if TYPE_CHECKING:
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.whole import Member


def cores_of(spec: ClusterSpec, member: Member, *, cpus: int) -> tuple[str, ...]:
    """The cores for each GPU of a node; none where they are unknown, or the node has but some of its host's CPUs.

    Slurm takes no number that is beyond the CPUs that it is told of.

    Args:
        spec: Of the cluster.
        member: The node.
        cpus: How many Slurm is told of.
    """
    known = () if member.gpu_cores is UNSET else member.gpu_cores
    if spec.nodes.cpus is not None or len(known) != len(member.devices) or not all(map(is_number_list, known)):
        return ()
    return known if known and max(map(last_number, known)) < cpus else ()
