"""What the nodes of a spec, or one node of its own, request in GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.core.units import GIB
from gpuprov.gpu.order import GpuDefault, GpuOrder, resolve_order
from gpuprov.spec.models import GpuSpec
from gpuprov.spec.variables import read_variables

if TYPE_CHECKING:
    from gpuprov.gpu.allocate import LeaseRequest
    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.models import ClusterSpec


def request_of_spec(spec: ClusterSpec, host: HostGpus, *, node: str) -> LeaseRequest:
    """What each node of a cluster requests; variables of the spec say the same as its section `gpus`.

    Raises:
        UsageError: A variable is nonsense, or contradicts what the section says.
    """
    gpus, default = spec.gpus, GpuSpec()
    plain = (gpus.per_node, gpus.sharing) == (default.per_node, default.sharing)
    said = "" if plain else f"gpus: {{per_node: {gpus.per_node}, sharing: {gpus.sharing}}}"
    order = GpuOrder(
        memory_bytes=gpus.memory_gib * GIB if gpus.memory_gib else None,
        model=gpus.model,
        environment=read_variables(spec.nodes.environment),
    )
    return resolve_order(order, host, GpuDefault(count=gpus.per_node, sharing=gpus.sharing, said=said), node=node)


def request_of_node(order: GpuOrder, spec: ClusterSpec, host: HostGpus, *, node: str) -> LeaseRequest:
    """What one node requests: what was ordered for it alone, else what its cluster's spec says.

    Raises:
        UsageError: It is nonsense, names what is not there, or contradicts itself.
    """
    common = request_of_spec(spec, host, node=node)
    default = GpuDefault(count=common.count, sharing=common.sharing)
    if not order.silent:
        return resolve_order(order, host, default, node=node)
    memory_bytes = spec.gpus.memory_gib * GIB if spec.gpus.memory_gib else None
    filled = replace(order, memory_bytes=order.memory_bytes or memory_bytes, model=order.model or spec.gpus.model)
    return replace(resolve_order(filled, host, default, node=node), wanted=common.wanted)
