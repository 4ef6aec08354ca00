"""The files of each node: some before its first boot only, some kept the same on every node of the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import LABEL_ROLE, File
from gpuprov.spec.addressing import gateway
from gpuprov.workflows.build_image import LABEL_MUNGE_OWNER
from gpuprov.workflows.create_nodes import seed_files
from gpuprov.workflows.secrets import ensure_ssh_key, munge_key
from gpuprov.workflows.slurm_files import Machine, render_hosts, render_slurm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.drivers.base import Driver, ImageState
    from gpuprov.spec.models import ClusterSpec, Role
    from gpuprov.workflows.cluster_state import ClusterState
    from gpuprov.workflows.node_design import NodeDesign
    from gpuprov.workflows.slurm_files import Member

SIMULATOR = File(path="/etc/environment", content=b"NUMBA_ENABLE_CUDASIM=1\n")  # numba, for who logs in by ssh
CONTROLLER_MARK = "/etc/slurm/controller"  # the image's slurmctld.service starts only where this is


@dataclass(frozen=True, kw_only=True)
class FileSet:
    """The files of a cluster.

    Attributes:
        shared: The same on every node, kept up to date on nodes that run.
        seed: What any new node gets before it boots.
        secret: What a new Slurm node gets besides.
        controller: Name of the Slurm controller.
    """

    shared: tuple[File, ...]
    seed: tuple[File, ...]
    secret: tuple[File, ...]
    controller: str

    def for_new(self, design: NodeDesign) -> tuple[File, ...]:
        """Everything a new node needs before it boots."""
        files = (*self.seed, *self.shared)
        if design.access == "simulated":
            files += (SIMULATOR,)
        if design.role == "slurm":
            files += self.secret
            if design.name == self.controller:
                files += (File(path=CONTROLLER_MARK, content=b""),)
        return files


def plan_files(
    driver: Driver,
    spec: ClusterSpec,
    state: ClusterState,
    members: Sequence[Member],
    images: Mapping[Role, ImageState],
    *,
    controller: str,
) -> FileSet:
    """Render the files for the cluster's members, with keys taken from the cluster or made anew."""
    shared: tuple[File, ...] = (render_hosts(spec.name, members),)
    secret: tuple[File, ...] = ()
    if any(member.slurm for member in members):
        facts = driver.facts()
        shared += render_slurm(spec, controller, members, Machine(cpus=facts.cpus, memory_bytes=facts.memory_bytes))
    if "slurm" in images:
        uid, gid = _munge_owner(images["slurm"])
        old = state.node(controller)
        holder = controller if old and old.complete and old.labels.get(LABEL_ROLE) == "slurm" else None
        key = munge_key(driver, holder)
        secret = (File(path="/etc/munge/munge.key", content=key, mode=0o400, uid=uid, gid=gid),)
    seed: tuple[File, ...] = ()
    if images:
        nameserver = driver.nameserver or str(gateway(spec.network).ip)
        seed = seed_files(nameserver=nameserver, public_key=ensure_ssh_key(spec.name))
    return FileSet(shared=shared, seed=seed, secret=secret, controller=controller)


def _munge_owner(image: ImageState) -> tuple[int, int]:
    owner = image.labels.get(LABEL_MUNGE_OWNER)
    if owner is None:
        raise UsageError(
            f"the image {image.name} cannot serve role slurm",
            evidence=f"it has no label {LABEL_MUNGE_OWNER}: gpuprov did not build it for that role",
            fix="leave --image out, or use --role plain",
        )
    uid, gid = owner.split(":")
    return int(uid), int(gid)
