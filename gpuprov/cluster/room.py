"""What a plan must not use up: the last of the host's storage, and of what the kernel shares out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady
from gpuprov.core.units import MIB
from gpuprov.host.kernel_limits import refuse_few

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host

_NODE_ROOM_BYTES = 64 * MIB  # a copy-on-write clone with its logs and spool


def refuse_without_room(driver: Driver, host: Host, *, nodes: int) -> None:
    """Refuse more nodes than the host carries; nothing has been changed yet.

    Args:
        driver: Tells the room that is left.
        host: Tells its limits.
        nodes: How many nodes are to be made.

    Raises:
        HostNotReady: Too little room, or too low a limit of the kernel, for the nodes to be made.
    """
    if nodes:
        refuse_few(driver, host.limits(), nodes)
        free = driver.facts().free_bytes
        needed = nodes * _NODE_ROOM_BYTES
        if free is not None and free < needed:
            raise HostNotReady(
                f"not enough space in the engine's storage for {nodes} node{'s' if nodes != 1 else ''}",
                evidence=f"{free // MIB} MiB free, {needed // MIB} MiB needed",
                fix="free some space: gpuprov image list, gpuprov image rm NAME; or request fewer nodes",
            )
