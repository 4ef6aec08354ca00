"""Ports of the host that lead into a node already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.shapes.node import Exposure


def refuse_forwarded(exposure: Exposure, name: str, exposed: Iterable[Exposure]) -> None:
    """Refuse a port of the host that leads to another port of a node.

    Raises:
        EngineError: It does.
    """
    for taken in exposed:
        if taken.host_port == exposure.host_port and taken != exposure:
            raise EngineError(
                f"port {exposure.host_port} of the host is already forwarded",
                evidence=f"it leads to port {taken.node_port} of {name}, from {taken.listen}",
                fix=f"list its ports: gpuprov show {name}",
            )
