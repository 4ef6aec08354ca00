"""What the nodes of a spec, or one node of its own, request in GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.gpu.order import GpuDefault, is_silent, resolve_order
from gpuprov.shapes.cluster_spec import GpuSpec
from gpuprov.shapes.gpu_order import GpuOrder
from gpuprov.spec.variables import read_variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.gpu.allocate import LeaseRequest
    from gpuprov.gpu.models import HostGpus
    from gpuprov.shapes.cluster_spec import ClusterSpec


def request_of_spec(spec: ClusterSpec, host: HostGpus, *, node: str) -> LeaseRequest:
    """What each node of a cluster requests; variables of the spec say the same as its section `gpus`.

    Raises:
        UsageError: A variable is nonsense, or contradicts what the section says.
    """
    gpus, usual = spec.gpus, GpuSpec()
    plain = (gpus.per_node, gpus.sharing) == (usual.per_node, usual.sharing)
    said = "" if plain else f"gpus: {{per_node: {gpus.per_node}, sharing: {gpus.sharing}}}"
    default = GpuDefault(count=gpus.per_node, sharing=gpus.sharing, said=said)
    common = GpuOrder().with_criteria_of(gpus)
    return resolve_order(common, read_variables(spec.nodes.environment), host, default, node=node)


def request_of_node(
    order: GpuOrder, environment: Sequence[str], spec: ClusterSpec, host: HostGpus, *, node: str
) -> LeaseRequest:
    """What one node requests: what was ordered for it alone, else what its cluster's spec says.

    Raises:
        UsageError: It is nonsense, names what is not there, or contradicts itself.
    """
    common = request_of_spec(spec, host, node=node)
    default = GpuDefault(count=common.count, sharing=common.sharing)
    variables = read_variables(environment)
    if not is_silent(order, variables):
        return resolve_order(order, variables, host, default, node=node)
    filled = order.with_criteria_of(spec.gpus)
    return replace(resolve_order(filled, variables, host, default, node=node), wanted=common.wanted)
