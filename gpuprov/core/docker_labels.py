"""Labels of Docker's objects that were changed: Docker cannot, so config-only networks hold them. Pure functions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LABELS_OF: Final = "gpuprov-docker.labels-of"  # id of the network or container that a config-only network has labels of
LABELS_SERIAL: Final = "gpuprov-docker.serial"
PREFIX: Final = "gpuprov."
_SERIAL: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


def parse_changed_labels(networks: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """By the id of the object, the labels that were changed; an empty value unsets one."""
    changed: dict[str, dict[str, str]] = {}
    for network in sorted(filter(_holds_labels, networks), key=serial_of):
        labels = {key: value for key, value in network["Labels"].items() if key.startswith(PREFIX)}
        changed.setdefault(network["Labels"][LABELS_OF], {}).update(labels)
    return changed


def serial_of(network: Mapping[str, Any]) -> int:
    """Which of an object's changed labels came later; those of a damaged number came first."""
    serial = network["Labels"].get(LABELS_SERIAL, "")
    return int(serial) if _SERIAL.fullmatch(serial) else 0


def _holds_labels(network: Mapping[str, Any]) -> bool:
    return bool(network.get("ConfigOnly")) and LABELS_OF in (network.get("Labels") or {})
