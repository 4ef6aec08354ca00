"""What NVML says now about errors that the kernel's log has reported before: whether they last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuprov.gpu.xids import list_beyond_reset
from gpuprov.verify.checks.driver import facts_of
from gpuprov.verify.checks.links import FABRIC_DONE, is_cut, name_fabric_faults
from gpuprov.verify.checks.readings import NO_ANSWER, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gpuprov.verify.models import Observation

_ADDRESS = re.compile(r"\b([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})\b", re.IGNORECASE)


def _gpus(seen: Observation) -> Sequence[Mapping[str, Any]]:
    """What NVML says of each GPU; nothing where it could not be asked."""
    nvml: Mapping[str, Any] = (seen.facts or {})["nvml"] or {}
    gpus: Sequence[Mapping[str, Any]] = nvml.get("gpus", ())
    return gpus


def _readings(seen: Observation) -> dict[str, Mapping[str, Any]]:
    """Readings of each GPU, by UUID."""
    return {gpu["uuid"]: gpu["readings"] for gpu in _gpus(seen)}


def _addresses(seen: Observation) -> dict[str, str]:
    """Of the driver's GPUs, by UUID, as Xids have them: without the function."""
    pci: Mapping[str, str] = facts_of(seen, "driver")["pci"]
    return {uuid: address.lower().partition(".")[0] for uuid, address in pci.items()}


def list_recovered(seen: Observation) -> tuple[str, ...]:
    """GPUs of which NVML says that they need no recovery, by the PCI addresses that Xids have."""
    addresses = _addresses(seen)
    sound = [uuid for uuid, readings in _readings(seen).items() if readings["recovery_action"].get("value") == 0]
    return tuple(addresses[uuid] for uuid in sound if uuid in addresses)


def find_beyond_reset(seen: Observation) -> tuple[tuple[int, str], ...]:
    """Xids that ask for a reboot on GPUs of that model, and the PCI addresses of these."""
    addresses = _addresses(seen)
    return tuple(
        (number, addresses[gpu["uuid"]])
        for gpu in _gpus(seen)
        if gpu["uuid"] in addresses
        for number in list_beyond_reset(gpu["name"], mig=is_cut(values_of(gpu["readings"])))
    )


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
