"""Disks that a cluster will soon have filled: its engine's storage, and the folder that its nodes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.disk import ALMOST_FULL, NEARLY_FULL
from gpuprov.core.errors import GpuprovError

if TYPE_CHECKING:
    from gpuprov.core.disk import Disk
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host


def find_full_disks(driver: Driver, host: Host, folder: str) -> tuple[str, ...]:
    """A sentence for each disk that is nearly full; none for disks that cannot be read.

    Args:
        driver: Tells its storage.
        host: Has the folder.
        folder: That nodes share; empty for none.
    """
    try:
        storage = driver.disk()
    except GpuprovError:
        storage = None
    shared = host.folders.disk(folder) if folder else None
    said = (describe_fullness(f"the storage of {driver.name}", storage), describe_fullness(folder, shared))
    return tuple(filter(None, said))


def describe_fullness(name: str, disk: Disk | None) -> str:
    """A sentence about a disk that is nearly full; empty for others."""
    if disk is None or disk.percent < NEARLY_FULL:
        return ""
    urgent = ", and work will soon fail" if disk.percent >= ALMOST_FULL else ""
    return f"{name} is {disk.words}{urgent}; see what uses it: gpuprov doctor"
