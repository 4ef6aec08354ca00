"""What nodes of a Slurm cluster can give to a job: Slurm takes none that fits no node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.files import present_member
from gpuprov.cluster.whole import recorded_whole
from gpuprov.core.units import MIB
from gpuprov.roles.base import spec_of
from gpuprov.roles.slurm.facts import NAME
from gpuprov.roles.slurm.files import Machine, usable_machine
from gpuprov.roles.slurm.partitions import partitions_with
from gpuprov.roles.slurm.units import types_of
from gpuprov.roles.work.job_room import JobRoom, NodeRoom
from gpuprov.spec.partitions import partitions_of

if TYPE_CHECKING:
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver


def find_room(driver: Driver, state: ClusterState) -> JobRoom:
    """As the cluster's configuration says it to Slurm."""
    spec, whole = spec_of(state), recorded_whole(state)
    if whole is None:
        engine = driver.facts()
        here = Machine(cpus=engine.cpus, memory_bytes=engine.memory_bytes)
        members = [*map(present_member, state.nodes_of(NAME))]
    else:  # its members say what their hosts have
        here = Machine(cpus=0, memory_bytes=0)
        members = [member for member in whole.members if member.role == NAME]
    nodes = tuple(
        NodeRoom(
            gpus=member.gpu_count,
            types=types_of(member),
            memory_bytes=usable_machine(spec, member, here).memory_mib * MIB,
            partitions=partitions_with(spec, member.name),
            shards=(spec.slurm.shards_per_gpu or 0) if member.devices else 0,
        )
        for member in members
    )
    names = tuple(one.name for one in partitions_of(spec))
    return JobRoom(cluster=state.name, nodes=nodes, partitions=names, has_qos=bool(spec.slurm.qos))
