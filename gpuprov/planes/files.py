"""The files of each node: some before its first boot only, some kept the same on every node of the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.cluster.build_image import LABEL_MUNGE_OWNER
from gpuprov.cluster.nodes import seed_files
from gpuprov.cluster.secrets import MUNGE_KEY, ensure_ssh_key, munge_key
from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import File
from gpuprov.gpu.simulator import SIMULATOR_VARIABLE
from gpuprov.planes.slurm.files import SLURM_FOLDER, Machine, render_hosts, render_slurm
from gpuprov.spec.addressing import gateway

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver, ImageState
    from gpuprov.planes.slurm.files import Member
    from gpuprov.spec.models import ClusterSpec, Role

SIMULATOR = File(path="/etc/environment", content=f"{SIMULATOR_VARIABLE}=1\n".encode())  # numba, for who logs in by ssh
CONTROLLER = File(path="/etc/slurm/controller", content=b"")  # the image's slurmctld.service starts only where this is


@dataclass(frozen=True, kw_only=True)
class FileSet:
    """The files of a cluster.

    Attributes:
        shared: The same on every node.
        seed: What any new node gets before it boots.
        secret: What a Slurm node has besides.
        controller: Name of the Slurm controller.
        members: The nodes of the cluster by name.
    """

    shared: tuple[File, ...]
    seed: tuple[File, ...]
    secret: tuple[File, ...]
    controller: str
    members: Mapping[str, Member]

    def kept(self, name: str) -> tuple[File, ...]:
        """What is kept up to date on a node that runs; who may log in is its user's to change after the first boot."""
        member = self.members[name]
        files: tuple[File, ...] = (SIMULATOR,) if member.simulated else ()
        if member.slurm:
            files += self.secret
            if name == self.controller:
                files += (CONTROLLER,)
        shared = [file for file in self.shared if member.slurm or not file.path.startswith(SLURM_FOLDER)]
        return (*shared, *files)

    def for_new(self, design: NodeDesign) -> tuple[File, ...]:
        """Everything a new node needs before it boots."""
        return (*self.seed, *self.kept(design.name))


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
        owner = _munge_owner(state, images)
        if owner:
            uid, gid = (int(number) for number in owner.split(":"))
            # the controller first: a key that somebody changed elsewhere is the wrong one
            holders = sorted((node.name for node in state.slurm_nodes), key=lambda name: (name != controller, name))
            secret = (File(path=MUNGE_KEY, content=munge_key(driver, holders), mode=0o400, uid=uid, gid=gid),)
    seed: tuple[File, ...] = ()
    if images:
        nameserver = driver.nameserver or str(gateway(spec.network).ip)
        seed = seed_files(nameserver=nameserver, public_key=ensure_ssh_key(spec.name))
    by_name = {member.name: member for member in members}
    return FileSet(shared=shared, seed=seed, secret=secret, controller=controller, members=by_name)


def _munge_owner(state: ClusterState, images: Mapping[Role, ImageState]) -> str:
    """`uid:gid` of munge in the image of new nodes, else in that of those there are; empty where no label tells."""
    image = images.get("slurm")
    if image is None:
        return next(
            (node.labels[LABEL_MUNGE_OWNER] for node in state.slurm_nodes if LABEL_MUNGE_OWNER in node.labels), ""
        )
    owner = image.labels.get(LABEL_MUNGE_OWNER)
    if owner is None:
        raise UsageError(
            f"the image {image.name} cannot serve role slurm",
            evidence=f"it has no label {LABEL_MUNGE_OWNER}: gpuprov did not build it for that role",
            fix="leave --image out, or use --role plain",
        )
    return owner
