"""Slurm's configuration and the hosts file, from one model of the cluster: pure functions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from gpuprov.assets import find_asset
from gpuprov.cluster.design import gpu_paths
from gpuprov.core.fingerprint import fingerprint
from gpuprov.drivers.base import LABEL_ACCESS, LABEL_ROLE, File
from gpuprov.render.templates import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.drivers.base import NodeState
    from gpuprov.spec.models import ClusterSpec

_MEMORY_SHARE = 0.95  # slurmd reports what the kernel left over; a node with less than configured is drained
_MIB = 1024**2
SLURM_FOLDER = "/etc/slurm/"
APPLIED = f"{SLURM_FOLDER}applied"  # the digest of the files that the node's daemons have read


@dataclass(frozen=True, kw_only=True)
class Member:
    """A node as the files name it; `devices` are the paths of its GPUs in order of minor, `simulated` ones or real."""

    name: str
    address: str
    private_address: str
    slurm: bool
    devices: tuple[str, ...] = ()
    simulated: bool = False


def planned_member(design: NodeDesign) -> Member:
    """A node that is to be, or is kept, as the files name it."""
    return Member(
        name=design.name,
        address=design.address,
        private_address=design.private_address,
        slurm=design.role == "slurm",
        devices=gpu_paths(design.devices),
        simulated=design.access == "simulated",
    )


def present_member(node: NodeState) -> Member:
    """A node that is there, as the files name it."""
    return Member(
        name=node.name,
        address=node.addresses.get("eth0", "").partition("/")[0],
        private_address=node.addresses.get("eth1", "").partition("/")[0],
        slurm=node.labels.get(LABEL_ROLE) == "slurm",
        devices=gpu_paths(node.devices),
        simulated=node.labels.get(LABEL_ACCESS) == "simulated",
    )


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What each node may use of the host, as Slurm counts it."""

    cpus: int
    memory_bytes: int

    @property
    def memory_mib(self) -> int:
        """RealMemory, with some room below what the kernel shows."""
        return int(self.memory_bytes * _MEMORY_SHARE) // _MIB


def render_hosts(cluster: str, members: Sequence[Member]) -> File:
    """`/etc/hosts` with every node's two addresses."""
    text = render(find_asset("templates"), "node/hosts.j2", cluster=cluster, nodes=members)
    return File(path="/etc/hosts", content=text.encode())


def render_slurm(spec: ClusterSpec, controller: str, members: Sequence[Member], machine: Machine) -> tuple[File, ...]:
    """`slurm.conf`, `gres.conf` and their digest, the same for every node.

    The digest is written after the daemons have read the files (`slurm.renew_files`), so that a run killed in between
    is seen and repaired.
    """
    memory_bytes = (spec.nodes.memory_gib or 0) * 1024**3 or machine.memory_bytes
    each = Machine(cpus=spec.nodes.cpus or machine.cpus, memory_bytes=memory_bytes)
    nodes = [{**asdict(member), "cpus": each.cpus, "memory_mib": each.memory_mib} for member in members if member.slurm]
    values = {
        "cluster": spec.name,
        "controller": next(node for node in nodes if node["name"] == controller),
        "nodes": nodes,
        "partition": spec.slurm.partition,
    }
    templates = find_asset("templates")
    files = tuple(
        File(path=f"{SLURM_FOLDER}{name}", content=render(templates, f"slurm/{name}.j2", **values).encode())
        for name in ("slurm.conf", "gres.conf")
    )
    digest = fingerprint([file.content.decode() for file in files])
    return (*files, File(path=APPLIED, content=f"{digest}\n".encode()))
