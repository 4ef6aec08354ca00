"""A new node, and the host that is to have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuprov.shapes.node_order import NodeOrder


@dataclass(frozen=True, kw_only=True)
class HostedOrder:
    """A node, and where it is to be.

    Attributes:
        host: Which is to have it; None to place it.
        engine: For a cluster that is not there yet; empty for the default one there.
        wait_s: How long to wait for GPUs; None not at all.
    """

    node: NodeOrder
    host: str | None = None
    engine: str = ""
    wait_s: float | None = None
