"""GPUs of nodes that hold parts of them (MIG), or several models: how Slurm counts them, and how jobs know theirs."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import File
from gpuprov.roles.slurm.facts import slurm_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.whole import LeasedUnit, Member


def units_in_order(member: Member) -> tuple[LeasedUnit, ...]:
    """In the order of the numbers that Slurm gives them: those of a type together; none where all are alike.

    Slurm does so itself with the lines of gres.conf, which are in the order of the devices.
    """
    units = () if member.units is UNSET else member.units
    place = {device: number for number, device in enumerate(member.devices)}
    alike: dict[str, list[LeasedUnit]] = {}
    for unit in sorted(units, key=lambda unit: place.get(unit.devices[0], len(place))):
        alike.setdefault(unit.type, []).append(unit)
    return tuple(chain.from_iterable(alike.values()))


def describe_units(member: Member, cores: Mapping[str, str]) -> list[dict[str, Any]]:
    """The same for the templates, which need it for parts of GPUs only.

    Args:
        cores: By the device of a GPU, those that are nearest; empty where they are not told.
    """
    return [
        {"type": unit.type, "devices": unit.devices, "cores": cores.get(unit.devices[0], "")}
        for unit in (units_in_order(member) if member.parts else ())
    ]


def types_of(member: Member) -> tuple[str, ...]:
    """By which jobs ask for each of its GPUs, or parts of GPUs; none where that is unknown."""
    return tuple(unit.type for unit in units_in_order(member)) if member.parts else member.gpu_types


def unit_files(member: Member) -> tuple[File, ...]:
    """What the programs around jobs read: Slurm counts by type, CUDA otherwise, and parts have but UUIDs."""
    lines = "".join(f"{number} {unit.uuid}\n" for number, unit in enumerate(units_in_order(member)))
    return (File(path=slurm_path("gpu_units"), content=lines.encode()),) if lines else ()


def refuse_shards_of_parts(spec: ClusterSpec, members: Sequence[Member]) -> None:
    """Raises UsageError where Slurm would have to divide parts of a GPU once more, which it does not."""
    held = next((member for member in members if member.parts), None) if spec.slurm.shards_per_gpu else None
    if held:
        raise UsageError(
            f"{held.name} holds parts of GPUs (MIG), which have no shards",
            evidence=f"slurm.shards_per_gpu is {spec.slurm.shards_per_gpu}; parts: "
            + ", ".join(f"{unit.type} {unit.uuid}" for unit in held.parts),
            fix="in the spec, slurm.shards_per_gpu: null",
        )
