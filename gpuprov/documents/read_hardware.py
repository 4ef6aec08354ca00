"""What `hardware` tells on another host, read back strictly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.answer_kinds import fields_of, is_bool, is_list, items_of, number_in, or_none, pick, text_of
from gpuprov.planes.work.hardware_answers import MachineHardware, NodeHardware, is_gpu

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEMA: Final = "gpuprov.hardware/v1"
_REASON: Final = or_none(text_of(1000))
_MACHINE: Final = {
    "machine": text_of(255),
    "cpu": text_of(200),
    "threads": number_in(1, 10**6),
    "gpus": items_of(is_gpu),
    "simulated": is_bool,
    "reason": _REASON,
}


@dataclass(frozen=True, kw_only=True)
class HostHardware:
    """A host, and its nodes."""

    own: MachineHardware
    nodes: tuple[NodeHardware, ...]


def read_hardware_document(told: Mapping[str, Any]) -> HostHardware:
    """A host and its nodes; raises ValueError for anything else."""
    kinds = {"host": text_of(255), "hardware": lambda value: isinstance(value, dict), "nodes": is_list}
    _, own, nodes = fields_of(told, _SCHEMA, kinds)
    return HostHardware(own=_machine(own), nodes=tuple(map(_node, nodes)))


def _machine(told: object) -> MachineHardware:
    machine, cpu, threads, gpus, simulated, reason = pick(told, _MACHINE)
    return MachineHardware(
        machine=machine, cpu=cpu, threads=threads, gpus=tuple(gpus), simulated=simulated, reason=reason
    )


def _node(told: object) -> NodeHardware:
    hardware_or_none = or_none(lambda value: isinstance(value, dict))
    node, hardware, reason = pick(told, {"node": text_of(255), "hardware": hardware_or_none, "reason": _REASON})
    return NodeHardware(node=node, hardware=None if hardware is None else _machine(hardware), reason=reason)
