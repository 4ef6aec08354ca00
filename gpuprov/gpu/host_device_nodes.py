"""Compare the device nodes that the host has with those that its driver calls for."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpuprov.spec.devices import CharDevice


@dataclass(frozen=True, kw_only=True)
class NodeStat:
    """What stat() says of a path in /dev."""

    kind: Literal["char", "other"]
    major: int
    minor: int


def stat_nodes(root: Path, devices: Sequence[CharDevice]) -> dict[str, NodeStat]:
    """Look at the paths of `devices` under root; those that are absent are left out."""
    found: dict[str, NodeStat] = {}
    for device in devices:
        path = root / device.path.lstrip("/")
        if path.exists():
            status = path.stat()
            kind: Literal["char", "other"] = "char" if stat.S_ISCHR(status.st_mode) else "other"
            found[device.path] = NodeStat(kind=kind, major=os.major(status.st_rdev), minor=os.minor(status.st_rdev))
    return found


def find_missing_links(root: Path, devices: Sequence[CharDevice]) -> tuple[CharDevice, ...]:
    """The devices without a link /dev/char/MAJOR:MINOR, by which systemd names a device in its rules."""
    return tuple(device for device in devices if not (root / f"dev/char/{device.major}:{device.minor}").exists())


def find_wrong_nodes(devices: Sequence[CharDevice], found: Mapping[str, NodeStat]) -> tuple[str, ...]:
    """One line for each device whose node on the host is absent or another one, as an earlier boot's nvidia-uvm."""
    wrong = []
    for device in devices:
        node = found.get(device.path)
        wanted = f"{device.major}:{device.minor}"
        if node is None:
            wrong.append(f"{device.path} is missing (expected {wanted})")
        elif node.kind != "char":
            wrong.append(f"{device.path} is not a character device (expected {wanted})")
        elif (node.major, node.minor) != (device.major, device.minor):
            wrong.append(f"{device.path} is {node.major}:{node.minor} (expected {wanted})")
    return tuple(wrong)
