"""LXD starts no instance while another one has its MAC address, running or not: a copy of a node is such a one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError
from gpuprov.drivers.foreign import describe_foreign
from gpuprov.drivers.lxd import documents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.drivers.lxd.api import Document

_SAID = "already defined on another nic"


def explain_double(document: Document, error: EngineError, others: Iterable[Document], command: str) -> EngineError:
    """The error of a start, where that is its reason: with the other instance, and what gives it another address.

    Args:
        document: The instance that did not start.
        error: What LXD said.
        others: Every instance.
        command: LXD's own client.
    """
    if _SAID not in error.evidence.lower():
        return error
    name, own = document["name"], _addresses(document)
    for other in others:
        shared = [device for device, address in _addresses(other).items() if address in own.values()]
        if other["name"] == name or not shared:
            continue
        state = documents.parse_instance(other)
        return EngineError(
            f"{name} cannot start: {state.name} has its MAC address",
            evidence=f"{state.name} is {'a node' if state.ours else describe_foreign(state)}, {state.status}; "
            f"{error.evidence}",
            fix="; ".join(f"{command} config device unset {state.name} {device} hwaddr" for device in shared),
        )
    return error


def _addresses(document: Document) -> dict[str, str]:
    return {name: nic["hwaddr"] for name, nic in document["expanded_devices"].items() if nic.get("hwaddr")}
