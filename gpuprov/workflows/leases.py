"""Leases on GPUs, read from the labels of every node of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from gpuprov.drivers.base import LABEL_GPUS, LABEL_SHARING
from gpuprov.gpu.allocate import Lease

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.drivers.base import NodeState
    from gpuprov.spec.models import Sharing


def leased_uuids(node: NodeState) -> tuple[str, ...]:
    """UUIDs of the GPUs a node holds."""
    return tuple(uuid for uuid in node.labels.get(LABEL_GPUS, "").split(",") if uuid)


def read_leases(nodes: Iterable[NodeState]) -> tuple[Lease, ...]:
    """Who holds what, stopped nodes too: a lease lives as long as its node."""
    return tuple(
        Lease(
            node=node.name,
            gpus=leased_uuids(node),
            sharing=cast("Sharing", node.labels.get(LABEL_SHARING, "shared")),
        )
        for node in nodes
        if leased_uuids(node)
    )
