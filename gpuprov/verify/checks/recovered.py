"""What NVML says now about errors that the kernel's log has reported before: whether they last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuprov.verify.checks.driver import facts_of
from gpuprov.verify.checks.links import FABRIC_DONE, name_fabric_faults
from gpuprov.verify.checks.readings import NO_ANSWER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gpuprov.verify.models import Observation

_ADDRESS = re.compile(r"\b([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})\b", re.IGNORECASE)


def _readings(seen: Observation) -> dict[str, Mapping[str, Any]]:
    """What NVML says of each GPU, by UUID; nothing where it could not be asked."""
    nvml: Mapping[str, Any] = (seen.facts or {})["nvml"] or {}
    return {gpu["uuid"]: gpu["readings"] for gpu in nvml.get("gpus", ())}


def _addresses(seen: Observation) -> dict[str, str]:
    """Of the driver's GPUs, by UUID, as Xids have them: without the function."""
    pci: Mapping[str, str] = facts_of(seen, "driver")["pci"]
    return {uuid: address.lower().partition(".")[0] for uuid, address in pci.items()}


def list_recovered(seen: Observation) -> tuple[str, ...]:
    """GPUs of which NVML says that they need no recovery, by the PCI addresses that Xids have."""
    addresses = _addresses(seen)
    sound = [uuid for uuid, readings in _readings(seen).items() if readings["recovery_action"].get("value") == 0]
    return tuple(addresses[uuid] for uuid in sound if uuid in addresses)


def lacks_recovery_actions(seen: Observation) -> bool:
    """Whether the driver is older than NVML's recovery actions."""
    actions = [readings["recovery_action"] for readings in _readings(seen).values()]
    return bool(actions) and all(action.get("code") in NO_ANSWER for action in actions)


def drop_returned(lines: Sequence[str], seen: Observation) -> tuple[str, ...]:
    """Lines about GPUs that do not respond now; one without an address is about any of the driver's."""
    addresses = _addresses(seen)
    respond = {
        addresses[uuid] for uuid, readings in _readings(seen).items() if uuid in addresses and _responds(readings)
    }
    all_respond = bool(addresses) and respond >= set(addresses.values())
    found = [(line, _ADDRESS.search(line)) for line in lines]
    return tuple(line for line, address in found if not (address[1].lower() in respond if address else all_respond))


def _responds(readings: Mapping[str, Any]) -> bool:
    """Whether the GPU itself responds, and the driver requests nothing, where it can."""
    action = readings["recovery_action"]
    return "value" in readings["temperature_c"] and (action.get("value") == 0 or action.get("code") in NO_ANSWER)


def is_fabric_sound(seen: Observation) -> bool:
    """Whether every GPU is in the fabric with all its links, and the driver requests nothing.

    The state of the fabric alone does not tell: it stays `completed` when a switch fails.
    """
    gpus = _readings(seen).values()
    return bool(gpus) and all(map(_is_linked, gpus))


def _is_linked(readings: Mapping[str, Any]) -> bool:
    fabric, links = readings["fabric"].get("value"), readings["nvlinks"].get("value")
    return (
        bool(fabric and links)
        and (fabric["state"], fabric["status"]) == (FABRIC_DONE, 0)
        and not name_fabric_faults(fabric.get("health", 0))
        and all(links)
        and readings["recovery_action"].get("value") == 0
    )
