"""Slurm's configuration for the members of a cluster: pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import structs

from gpuprov.assets import get_asset
from gpuprov.core.fingerprint import fingerprint
from gpuprov.core.units import GIB, MIB
from gpuprov.drivers.base import File
from gpuprov.render.templates import render
from gpuprov.roles.slurm.backup import controller_names, state_folder
from gpuprov.roles.slurm.cores import cores_of
from gpuprov.roles.slurm.facts import slurm_facts, slurm_path
from gpuprov.roles.slurm.network import as_reached
from gpuprov.roles.slurm.partitions import describe_partitions
from gpuprov.roles.slurm.units import describe_units, types_of
from gpuprov.spec.people import limits_people

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.whole import Member


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What each node may use of its host, as Slurm counts it."""

    cpus: int
    memory_bytes: int

    @property
    def memory_mib(self) -> int:
        """RealMemory, with some room below what the kernel shows."""
        return int(self.memory_bytes * slurm_facts()["memory_share"]) // MIB


def render_slurm(
    spec: ClusterSpec,
    members: Sequence[Member],
    machine: Machine,
    *,
    accounting: bool = False,
    rest: bool = False,
) -> tuple[File, ...]:
    """`slurm.conf`, `gres.conf` and their digest, the same for every node.

    The digest is written after the daemons have read the files (role.apply), so that a run killed in between is seen
    and repaired.

    Args:
        machine: This host, for members that do not say what theirs has.
        accounting: Whether the controller's node records jobs.
        rest: Whether tokens are taken, for the REST API.
    """
    members = as_reached(spec, members)
    nodes = [_describe(spec, member, machine) for member in members]
    by_name = {node["name"]: node for node in nodes}
    controller, *backups = (by_name[name] for name in controller_names(spec))
    kept = state_folder(spec)
    values = {
        "cluster": spec.name,
        "qos": bool(spec.slurm.qos),
        "controller": controller,
        **({"backup": backups[0], "state": kept.mount.target, **_handover_paths()} if backups and kept else {}),
        **({"accounting": controller_address(spec, members)} if accounting else {"job_ended": slurm_path("job_ended")}),
        "gpu_types": sorted({type_ for member in members for type_ in types_of(member)}),
        "nodes": nodes,
        **({"token_key": slurm_path("token_key")} if rest else {}),
        **({"scrub": slurm_path("prolog")} if spec.gpus.scrub else {}),
        "shards": spec.slurm.shards_per_gpu or 0,
        "partitions": describe_partitions(spec, list(by_name)),
        "people": bool(spec.people or spec.sssd),
        "limits": limits_people(spec.people),
        "epilog": slurm_path("epilog"),
        "task_prolog": slurm_path("task_prolog"),
    }
    templates, folder = get_asset("templates"), slurm_path("folder")
    files = tuple(
        File(path=f"{folder}/{name}", content=render(templates, f"slurm/{name}.j2", **values).encode())
        for name in ("slurm.conf", "gres.conf")
    )
    digest = fingerprint([file.content.decode() for file in files])
    return (*files, File(path=slurm_path("applied_mark"), content=f"{digest}\n".encode()))


def controller_address(spec: ClusterSpec, members: Sequence[Member]) -> str:
    """The address at which the other nodes reach the one with the controller."""
    name = controller_names(spec)[0]
    member = next(member for member in as_reached(spec, members) if member.name == name)
    return member.address or member.private_address


def handover_files(spec: ClusterSpec) -> tuple[File, ...]:
    """What the nodes that run slurmctld have besides, where there are two of them: programs that it runs."""
    if state_folder(spec) is None:
        return ()
    templates = get_asset("templates")

    def text(path: str) -> bytes:
        return render(templates, f"slurm/{PurePosixPath(path).name}.sh", passing=slurm_facts()["passing"]).encode()

    return tuple(File(path=path, content=text(path), mode=0o755) for path in _handover_paths().values())


def _handover_paths() -> dict[str, str]:
    folder = slurm_path("folder")
    return {"took_over": f"{folder}/took-over", "relinquished": f"{folder}/relinquished"}


def usable_machine(spec: ClusterSpec, member: Member, here: Machine) -> Machine:
    """What a node may use of its host; `here` is this host, for members that do not say what theirs has."""
    memory_bytes = (spec.nodes.memory_gib or 0) * GIB or member.memory_bytes or here.memory_bytes
    return Machine(cpus=spec.nodes.cpus or member.cpus or here.cpus, memory_bytes=memory_bytes)


def _describe(spec: ClusterSpec, member: Member, here: Machine) -> dict[str, Any]:
    may_use = usable_machine(spec, member, here)
    cores = cores_of(spec, member, cpus=may_use.cpus)
    units = describe_units(member, dict(zip(member.devices, cores, strict=False)))
    told = {"cpus": may_use.cpus, "memory_mib": may_use.memory_mib, "cores": cores, "units": units}
    return {**structs.asdict(member), **told}
