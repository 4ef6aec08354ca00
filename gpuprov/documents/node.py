"""`show` and `logs`: one node."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from gpuprov.drivers.base import NodeState


def show_document(node: NodeState, *, host: str) -> dict[str, Any]:
    """All that the engine knows of a node."""
    shown = asdict(node)
    for key in ("id", "copy_of", "member"):  # the first tells nobody anything, and a node is no copy and is here
        del shown[key]
    return document("node", host=host, node=shown)


def logs_document(node: str, log: str, *, host: str) -> dict[str, Any]:
    """What a node's console said."""
    return document("logs", host=host, node=node, log=log)
