"""Orders as a test writes them: what is asked of GPUs stands beside the rest."""

from __future__ import annotations

from typing import Any

from gpuprov.shapes.gpu_order import GpuOrder
from gpuprov.shapes.node_order import NodeOrder

_ASKED = {*GpuOrder.__struct_fields__} - {"per_node"}


def nested(*, gpus: str | None = None, **more: Any) -> dict[str, Any]:
    """The fields of an order, with so many GPUs, or these, and what else is asked of GPUs in one value."""
    asked = {key: more.pop(key) for key in _ASKED & more.keys()}
    return {"gpus": GpuOrder(per_node=gpus, **asked), **more}


def node_order(name: str, *, cluster: str = "lab", **more: Any) -> NodeOrder:
    """The order of a node."""
    return NodeOrder(name=name, cluster=cluster, **nested(**more))
