"""What a plan must not use up: the last of the host's storage, and of what the kernel shares out."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from gpuprov.cluster.node_limits import choose_limits
from gpuprov.cluster.placement import NODE_ROOM_BYTES
from gpuprov.core.errors import HostNotReady
from gpuprov.core.units import GIB, MIB
from gpuprov.machine.kernel_limits import LIMITS
from gpuprov.shapes.members import Room

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.cluster.node_limits import GivenLimits
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host


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
        needed = nodes * NODE_ROOM_BYTES
        if free is not None and free < needed:
            raise HostNotReady(
                f"not enough space in the engine's storage for {nodes} node{'s' if nodes != 1 else ''}",
                evidence=f"{free // MIB} MiB free, {needed // MIB} MiB needed",
                fix="free some space: gpuprov image list, gpuprov image rm NAME; or request fewer nodes",
            )


def ask_limits(driver: Driver, host: Host, *, nodes: int) -> Callable[[], GivenLimits]:
    """What says the limits of a new node of a cluster that has so many on the host; it looks once, when it is asked."""
    return cache(lambda: choose_limits(driver.facts(), host.limits(), nodes=nodes))


def find_room(driver: Driver, limits: Mapping[str, int | None], *, promised_gib: int) -> Room:
    """What the host has left for more nodes.

    Args:
        driver: Tells its storage and memory, and which nodes run.
        limits: The kernel's, by check.
        promised_gib: Memory that nodes there were promised.
    """
    facts = driver.facts()
    return Room(
        nodes=_carried(driver, limits),
        memory_bytes=max(0, facts.memory_bytes - promised_gib * GIB),
        disk_bytes=facts.free_bytes,
    )


def _carried(driver: Driver, limits: Mapping[str, int | None]) -> int | None:
    """How many more nodes the kernel's limits carry; None where none of them is low."""
    low = [
        present // limit.per_node
        for check, limit in LIMITS.items()
        if (present := limits.get(check)) is not None and limit.per_node and present < limit.least
    ]
    if "systemd" not in driver.capabilities or not low:  # what takes most of both
        return None
    return max(0, min(low) - _count_running(driver))


def _count_running(driver: Driver) -> int:
    """Of this host: instances of other members of the engine's cluster use up nothing here."""
    running = [node for node in driver.list_nodes() if node.status == "running" and not node.member]
    return sum(not node.privileged for node in running)


def refuse_few(driver: Driver, limits: Mapping[str, int | None], nodes: int) -> None:
    """Refuse nodes that the kernel's limits cannot carry: they would be made, and never get ready.

    Args:
        driver: Tells which nodes run already.
        limits: The present values, by check.
        nodes: How many are to be made.

    Raises:
        HostNotReady: A limit is too low for these nodes and those that run.
    """
    if "systemd" not in driver.capabilities:  # what takes most of both
        return
    running: int | None = None
    for check, limit in LIMITS.items():
        present = limits.get(check)
        if present is None or not limit.per_node or present >= limit.least:
            continue
        if running is None:
            running = _count_running(driver)
        needed = (running + nodes) * limit.per_node
        if present < needed:
            raise HostNotReady(
                f"the kernel limit {limit.key} is too low for {nodes} more nodes",
                evidence=f"it is {present} for all nodes; {running} are running, {running + nodes} need up to {needed}",
                fix="sudo gpuprov host prepare  # raises it",
            )
