"""Devices that systemd has to know, where it is in charge of a container's cgroup.

At each `systemctl daemon-reload` it sets the rules again that runc told it, and none besides. runc before 1.1.7 does
not tell it of a device that has no place below /dev/char, and NVIDIA's driver makes none there:
https://github.com/NVIDIA/nvidia-container-toolkit/issues/48
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.gpu.device_numbers import DeviceNumbers
    from gpuprov.runtime.request import Spec

_NUMBERED: Final = "dev/char"  # below the root of the machine


def is_in_charge(spec: Spec) -> bool:
    """Whether the engine wants the container in a unit of systemd's: `system.slice:docker:ID`, in place of a path."""
    return ":" in str((spec.get("linux") or {}).get("cgroupsPath") or "").rpartition("/")[2]


def place_by_number(devices: Iterable[DeviceNumbers], *, root: Path = Path("/")) -> None:
    """Have each device below /dev/char; what is there stays, and where none can be made, nothing happens.

    They are nodes that nobody but root can open, as simulated GPUs have no others to which links could lead.
    """
    folder = root / _NUMBERED
    for device in devices:
        with suppress(OSError):
            folder.mkdir(mode=0o755, exist_ok=True)
            os.mknod(folder / f"{device.major}:{device.minor}", stat.S_IFCHR, os.makedev(device.major, device.minor))
