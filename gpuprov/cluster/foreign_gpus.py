"""GPUs that instances of others can open, such as copies of nodes with their devices: held by no lease, and told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.cluster.held_gpus import gpu_paths
from gpuprov.drivers.foreign import describe_foreign

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.drivers.base import Driver, NodeState


@dataclass(frozen=True, kw_only=True)
class ForeignUse:
    """A running instance that is not ours, and the GPUs that it can open.

    Attributes:
        node: Its name.
        host: Name of the host that it is on.
        copy_of: The node that it is a copy of; empty where it is none.
        devices: Paths of the GPUs in it.
        stop: What stops it.
    """

    node: str
    host: str
    engine: str
    copy_of: str
    devices: tuple[str, ...]
    words: str
    stop: str

    def __str__(self) -> str:
        opens = ", ".join(self.devices)
        return (
            f"{self.node} ({self.engine}), {self.words}, is running and can open {opens} without a lease: {self.stop}"
        )


def find_foreign_uses(driver: Driver, nodes: Iterable[NodeState]) -> tuple[ForeignUse, ...]:
    """The running foreign instances of an engine that have devices of GPUs."""
    return tuple(
        ForeignUse(
            node=node.name,
            host=node.host,
            engine=driver.name,
            copy_of=node.copy_of.name if node.copy_of else "",
            devices=gpu_paths(node.devices),
            words=describe_foreign(node),
            stop=f"{driver.command} stop {node.name}",
        )
        for node in nodes
        if not node.ours and node.status == "running" and gpu_paths(node.devices)
    )
