"""Which GPUs the nodes of a spec, or one node or job of its own, ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.gpu.ask import GIB, Default, GpuWish, decide_ask
from gpuprov.spec.models import GpuSpec
from gpuprov.spec.variables import read_variables

if TYPE_CHECKING:
    from gpuprov.gpu.ask import GpuAsk
    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.models import ClusterSpec


def ask_of_spec(spec: ClusterSpec, host: HostGpus) -> GpuAsk:
    """What each node of a cluster asks for; variables of the spec say the same as its section `gpus`.

    Raises:
        UsageError: A variable is nonsense, or contradicts what the section says.
    """
    gpus, default = spec.gpus, GpuSpec()
    plain = (gpus.per_node, gpus.sharing) == (default.per_node, default.sharing)
    said = "" if plain else f"gpus: {{per_node: {gpus.per_node}, sharing: {gpus.sharing}}}"
    wish = GpuWish(
        memory_bytes=gpus.memory_gib * GIB if gpus.memory_gib else None,
        model=gpus.model,
        environment=read_variables(spec.nodes.environment),
    )
    return decide_ask(wish, host, Default(count=gpus.per_node, sharing=gpus.sharing, said=said))


def ask_of_node(wish: GpuWish, spec: ClusterSpec, host: HostGpus) -> GpuAsk:
    """What one node asks for: what was said for it alone, else what its cluster's spec says.

    Raises:
        UsageError: It is nonsense, names what is not there, or contradicts itself.
    """
    common = ask_of_spec(spec, host)
    default = Default(count=common.count, sharing=common.sharing)
    if not wish.silent:
        return decide_ask(wish, host, default)
    memory_bytes = spec.gpus.memory_gib * GIB if spec.gpus.memory_gib else None
    filled = replace(wish, memory_bytes=wish.memory_bytes or memory_bytes, model=wish.model or spec.gpus.model)
    return replace(decide_ask(filled, host, default), wanted=common.wanted)
