"""`clone`: a copy of a node under another name, with an address and a lease of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.cluster.find_node import get_node
from gpuprov.cluster.node_order import NodeOrder
from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ROLE
from gpuprov.workflows.create_node import create_node

if TYPE_CHECKING:
    from gpuprov.core.outcome import Outcome
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.host.base import Host
    from gpuprov.spec.models import GpuMode


@dataclass(frozen=True, kw_only=True)
class CloneOrder:
    """What `clone` is asked for; where no address is given, the copy takes a free one."""

    source: str
    name: str
    address: str | None = None
    gpu_mode: GpuMode = "auto"


def clone_node(driver: Driver, order: CloneOrder, host: Host, *, reporter: Reporter) -> Outcome:
    """Copy a stopped node's disk into a new node of its cluster.

    Raises:
        UsageError: The source runs (its files would be copied half-written), or the name or address cannot be had.
    """
    node = _find_source(driver, order.source, host, reporter)
    wanted = NodeOrder(
        name=order.name,
        cluster=node.labels[LABEL_CLUSTER],
        address=order.address,
        role=node.labels[LABEL_ROLE],
        source=order.source,
        gpu_mode=order.gpu_mode,
    )
    return create_node(driver, wanted, host, reporter=reporter)


def _find_source(driver: Driver, name: str, host: Host, reporter: Reporter) -> NodeState:
    """The node; where there is none, a run that makes it may be under way."""
    try:
        return get_node(driver, name)
    except UsageError:
        with host.lock(reporter):
            return get_node(driver, name)
