"""Look at the device nodes that the host has."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Literal

from gpuprov.gpu.device_nodes import NodeStat

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.shapes.node import CharDevice


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
