"""Differences between a node or a network and its design: pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.cluster.design import changed_labels
from gpuprov.core.redact import HIDDEN, is_secret
from gpuprov.shapes.node import CharDevice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.drivers.base import NodeState
    from gpuprov.shapes.node import Mount, Settings

_NO_DRIFT = ("gpuprov.version", "gpuprov.fingerprint")
_TOLD = 3  # devices or mounts in one line; a driver brings more than a dozen files


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
        design: The node's design.
        node: What it is.
        wanted: The settings that the design gives with this engine.
        live: Whether the engine can change devices and mounts of a running node.
    """
    found = []
    if set(node.devices) != set(design.devices):
        found.append(f"devices {_difference(node.devices, design.devices)}")
    if set(node.mounts) != set(design.mounts):
        found.append(f"mounts {_difference(node.mounts, design.mounts)}")
    replaced = bool(found) and not live
    found += [
        f"{key} {value or 'unset'} (until now {node.labels.get(key, '') or 'unset'})"
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
        key: f"{key} {_shown(wanted, key)} (until now {_shown(seen, key)})"
        for key in sorted({*seen, *wanted})
        if _value(seen, key) != _value(wanted, key)
    }


def _shown(settings: Settings, key: str) -> str:
    """The value in words that go into plans and logs."""
    return HIDDEN if key in settings and is_secret(key) else _value(settings, key)


def _value(settings: Settings, key: str) -> str:
    return settings[key].value if key in settings else "unset"


def _difference(seen: Sequence[CharDevice | Mount], wanted: Sequence[CharDevice | Mount]) -> str:
    """What should be there and is not, and what is and should not; a path that is both is told with what it is."""
    more, less = set(seen) - set(wanted), set(wanted) - set(seen)
    both = {_path(thing) for thing in more} & {_path(thing) for thing in less}
    return f"{_names(less, both)} (until now {_names(more, both)})"


def _names(things: Iterable[CharDevice | Mount], both: Collection[str]) -> str:
    names = sorted(f"{_path(thing)} ({_nature(thing)})" if _path(thing) in both else _path(thing) for thing in things)
    if len(names) > _TOLD:
        names = [*names[: _TOLD - 1], f"{len(names) - _TOLD + 1} more"]
    return ", ".join(names) or "none"


def _path(thing: CharDevice | Mount) -> str:
    return thing.path if isinstance(thing, CharDevice) else thing.target


def _nature(thing: CharDevice | Mount) -> str:
    if isinstance(thing, CharDevice):
        return f"{thing.major}:{thing.minor} mode {thing.mode:04o}"
    return f"{thing.source} ro" if thing.read_only else thing.source
