"""No two running instances with one address: asked before a node starts. A pure function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.drivers.foreign import describe_foreign

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gpuprov.drivers.base import NodeState


def refuse_shared_addresses(names: Collection[str], nodes: Iterable[NodeState], *, command: str) -> None:
    """Refuse to start nodes one of whose addresses a running instance has, such as a copy of the node.

    Args:
        names: The nodes that are to start.
        nodes: Every instance of the engine.
        command: The engine's own client.

    Raises:
        UsageError: It names the instance, and what to type.
    """
    nodes = tuple(nodes)
    starting = [node for node in nodes if node.ours and node.name in names]
    held = {
        address.partition("/")[0]: other
        for other in nodes
        if other.status != "stopped" and other not in starting
        for address in other.addresses.values()
    }
    for node in starting:
        for address in (address.partition("/")[0] for address in node.addresses.values()):
            if address in held:
                raise _in_use(node, address, held[address], command)
            held[address] = node


def _in_use(node: NodeState, address: str, other: NodeState, command: str) -> UsageError:
    return UsageError(
        f"{node.name} cannot start: its address {address} is in use",
        evidence=f"{other.name} has it: {'a gpuprov node' if other.ours else describe_foreign(other)}, {other.status}",
        fix=f"gpuprov stop {other.name}" if other.ours else f"{command} stop {other.name}",
    )
