"""What a controller has this host do with single nodes, each by the story that a user of this host would run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuprov.cluster.find_engine import engine_of_cluster
from gpuprov.core.errors import GpuprovError
from gpuprov.core.names import check_cluster_name
from gpuprov.documents.hardware import hardware_document
from gpuprov.workflows.hardware import ask_this_machine, look_at_nodes

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.host.base import Host


@dataclass(frozen=True, kw_only=True)
class HardwareOrder:
    """`hardware`: the processors and GPUs of the host, and of its running nodes of a cluster."""

    cluster: str


def serve_hardware(order: HardwareOrder, host: Host, reporter: Reporter) -> dict[str, Any]:
    """What `hardware` tells there."""
    connect = partial(engine_of_cluster, check_cluster_name(order.cluster), host.engines, reporter=reporter)
    own = ask_this_machine()
    try:
        nodes = look_at_nodes(connect, order.cluster)
    except GpuprovError as error:
        reporter.warn(f"without nodes: {error.what}; {error.evidence}")
        nodes = ()
    return hardware_document(own, nodes, host=host.name)
