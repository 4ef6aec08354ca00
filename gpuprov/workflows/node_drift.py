"""What of a node or a network is not as designed, whoever changed it: pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.spec.devices import CharDevice
from gpuprov.workflows.node_design import changed_labels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.drivers.base import NodeState, Settings
    from gpuprov.spec.devices import Mount
    from gpuprov.workflows.node_design import NodeDesign

_NO_DRIFT = ("gpuprov.version", "gpuprov.fingerprint")


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What differs on a node.

    Attributes:
        words: For the plan and the outcome; empty if nothing differs.
        settings: Whether the engine's settings are part of it.
        restart: Whether the node runs and the repair has it start again.
    """

    words: str = ""
    settings: bool = False
    restart: bool = False


def find_drift(design: NodeDesign, node: NodeState, wanted: Settings, *, live: bool) -> Drift:
    """Compare a node with its design.

    Args:
        design: What it shall be.
        node: What it is.
        wanted: The settings that the design gives with this engine.
        live: Whether the engine can change devices and mounts of a running node.
    """
    found = []
    if set(node.devices) != set(design.devices):
        found.append(f"devices {_paths(node.devices)} instead of {_paths(design.devices)}")
    if set(node.mounts) != set(design.mounts):
        found.append(f"mounts {_paths(node.mounts)} instead of {_paths(design.mounts)}")
    replaced = bool(found) and not live
    found += [
        f"{key} {node.labels.get(key, '') or 'unset'} instead of {value or 'unset'}"
        for key, value in changed_labels(design, node.labels).items()
        if key not in _NO_DRIFT
    ]
    settings = changed_settings(node.settings, wanted)
    lasting = [key for key in settings if not (wanted.get(key) or node.settings[key]).live]
    return Drift(
        words="; ".join([*found, *settings.values()]),
        settings=bool(settings),
        restart=(replaced or bool(lasting)) and node.status == "running",
    )


def changed_settings(seen: Settings, wanted: Settings) -> dict[str, str]:
    """The settings that differ, each in words; none where the driver cannot tell what is wanted."""
    if not wanted:
        return {}
    return {
        key: f"{key} {_value(seen, key)} instead of {_value(wanted, key)}"
        for key in sorted({*seen, *wanted})
        if _value(seen, key) != _value(wanted, key)
    }


def _value(settings: Settings, key: str) -> str:
    return settings[key].value if key in settings else "unset"


def _paths(things: Iterable[CharDevice | Mount]) -> str:
    paths = [thing.path if isinstance(thing, CharDevice) else thing.target for thing in things]
    return ",".join(sorted(paths)) or "none"
