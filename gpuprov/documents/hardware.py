"""What machines have, as `hardware` tells it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.documents.read_hardware import HostHardware
    from gpuprov.planes.work.hardware_answers import MachineHardware, NodeHardware


def hardware_document(own: MachineHardware, nodes: Sequence[NodeHardware], *, host: str) -> dict[str, Any]:
    """This host, and each node with why it could not be asked."""
    told = [
        {"node": one.node, "hardware": None if one.hardware is None else _machine(one.hardware), "reason": one.reason}
        for one in nodes
    ]
    return document("hardware", host=host, hardware=_machine(own), nodes=told)


def hosts_hardware_document(
    found: Mapping[str, HostHardware], hosts: Sequence[Mapping[str, Any]], own: MachineHardware, *, host: str
) -> dict[str, Any]:
    """The same with the nodes of several hosts; each host has its own hardware beside how it answered."""
    nodes = [node for one in found.values() for node in one.nodes]
    told = [{**one, "hardware": _machine(found[one["name"]].own) if one["name"] in found else None} for one in hosts]
    return {**hardware_document(own, nodes, host=host), "hosts": told}


def _machine(hardware: MachineHardware) -> dict[str, Any]:
    return {**asdict(hardware), "gpus": [dict(gpu) for gpu in hardware.gpus]}
