"""The nodes that can run Slurm's controller, and the folder in which it keeps its state where there are two of them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from gpuprov.roles.slurm.facts import NAME, slurm_facts
from gpuprov.spec.addressing import node_name, number_of_name
from gpuprov.spec.rule import SpecRule
from gpuprov.spec.shared_folder import KEPT, ServiceFolder, folder_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.spec.rule import Found

_KEY: Final = "slurm.backup"


def controller_name(spec: ClusterSpec) -> str:
    """The node on which slurmctld usually runs."""
    return node_name(spec.nodes.prefix, spec.slurm.controller)


def controller_names(spec: ClusterSpec) -> tuple[str, ...]:
    """The nodes that can run it, in Slurm's order."""
    return (controller_name(spec), *((spec.slurm.backup,) if spec.slurm.backup else ()))


def state_folder(spec: ClusterSpec) -> ServiceFolder | None:
    """The folder with the controller's state, beside the one that the nodes share; None where one node alone has it.

    It is not in that folder, for the account of jobs, to which that belongs, could put another one in its place.
    """
    shared = folder_of(spec)
    if spec.slurm.backup is None or not shared:
        return None
    return ServiceFolder(
        source=f"{shared}.{NAME}",
        uid=slurm_facts()["uid"],
        account=NAME,
        nodes=controller_names(spec),
        title="the state of Slurm's controller",
    )


def state_place(spec: ClusterSpec) -> str:
    """Where the controller keeps its state: in a folder of the host, or on the disk of a node."""
    folder = state_folder(spec)
    return folder.source if folder else controller_name(spec)


def _role(spec: ClusterSpec, _root: Path) -> Found:
    if spec.slurm.backup is not None and spec.nodes.role != NAME:
        yield _KEY, f"nodes with the role {spec.nodes.role} have no controller", f"null, or nodes.role: {NAME}"


def _node(spec: ClusterSpec, _root: Path) -> Found:
    backup, count = spec.slurm.backup, spec.nodes.count
    if backup is None:
        return
    number = number_of_name(backup, prefix=spec.nodes.prefix)
    last = node_name(spec.nodes.prefix, max(count, 1) - 1)
    others = f"another node, {node_name(spec.nodes.prefix, 0)} to {last}; or null"
    if number is None or number >= count:
        yield _KEY, f"there is no node {backup[:60]!r}", others
    elif number == spec.slurm.controller:
        yield _KEY, f"{backup} is the node of slurm.controller", others


def _share(spec: ClusterSpec, _root: Path) -> Found:
    if spec.slurm.backup is not None and not spec.share:
        yield (
            _KEY,
            "needs a folder beside that of `share`, which is false",
            "share: true or a path; or slurm.backup: null",
        )


def _mounts(spec: ClusterSpec, _root: Path) -> Found:
    for index, mount in enumerate(spec.nodes.mounts if spec.slurm.backup else ()):
        if PurePosixPath("/" + mount.target.lstrip("/")) == PurePosixPath(KEPT):
            yield (
                f"nodes.mounts[{index}].target",
                f"{KEPT} is where Slurm's controller keeps its state",
                "another folder",
            )


RULES: Final = (
    SpecRule(reads=(_KEY, "nodes.role"), find=_role),
    SpecRule(reads=(_KEY, "nodes.count", "nodes.prefix", "slurm.controller"), find=_node),
    SpecRule(reads=(_KEY, "share"), find=_share),
    SpecRule(reads=(_KEY, "nodes.mounts"), find=_mounts),
)
