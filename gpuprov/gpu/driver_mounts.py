"""The driver's user-space files are mounted read-only into nodes, never copied: which, and to where. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.gpu.driver_places import place_driver_files
from gpuprov.shapes.node import Mount

if TYPE_CHECKING:
    from gpuprov.gpu.models import DriverFiles


def plan_library_mounts(driver: DriverFiles) -> tuple[Mount, ...]:
    """As `place_driver_files`, as a node is requested; raises what that raises."""
    return tuple(Mount(source=source, target=target) for target, source in place_driver_files(driver).items())
