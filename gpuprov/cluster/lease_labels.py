"""What one node holds, read from its labels: pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.drivers.base import LABEL_GPUS, LABEL_SHARING

if TYPE_CHECKING:
    from gpuprov.drivers.base import NodeState
    from gpuprov.spec.models import Sharing


def leased_uuids(node: NodeState) -> tuple[str, ...]:
    """UUIDs of the GPUs a node holds."""
    return tuple(uuid for uuid in node.labels.get(LABEL_GPUS, "").split(",") if uuid)


def sharing_of(node: NodeState) -> Sharing:
    """How it holds them; a word that nobody knows is the one that takes them from nobody."""
    return "shared" if node.labels.get(LABEL_SHARING, "shared") == "shared" else "exclusive"
