"""Where on this machine the character devices are that go into containers.

Docker passes a device that the host has, and looks at it at every start. A real GPU's is in /dev. What the host has
not got (simulated GPUs) is made in a folder that only root may enter; its name says what it is, so that nothing has to
be remembered, and it outlives a reboot, as the containers do.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.shapes.node import CharDevice

FOLDER = Path("var/lib/gpuprov/devices")


def ensure_host_devices(devices: Iterable[CharDevice], *, root: Path = Path("/")) -> dict[str, str]:
    """For each device's path in the node, the path of such a device on the host.

    Raises:
        HostNotReady: one has to be made, and this user may not.
    """
    return {device.path: str(_ensure(device, root)) for device in devices}


def _ensure(device: CharDevice, root: Path) -> Path:
    own = root / device.path.lstrip("/")
    if _is(own, device):
        return own
    made = root / FOLDER / f"{device.major}-{device.minor}-{device.mode:04o}"
    try:
        if not _is(made, device):
            made.parent.mkdir(parents=True, exist_ok=True)
            made.parent.chmod(0o700)
            _make(made, device)
    except OSError as exc:
        raise HostNotReady(
            f"the device {device.path} cannot be created on this machine",
            evidence=str(exc),
            fix="run the same command as root: sudo gpuprov ...",
        ) from exc
    return made


def _make(path: Path, device: CharDevice) -> None:
    """Appear whole: another process may look at the same moment."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    os.mknod(unfinished, stat.S_IFCHR | 0o600, os.makedev(device.major, device.minor))
    unfinished.chmod(device.mode)
    unfinished.replace(path)


def _is(path: Path, device: CharDevice) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.makedev(device.major, device.minor)
