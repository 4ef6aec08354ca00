"""`clone`: a copy of a node under another name, with an address and a lease of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from gpuprov.cluster.node_order import NodeOrder
from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ROLE
from gpuprov.workflows.create_node import create_node
from gpuprov.workflows.node_verbs import get_node

if TYPE_CHECKING:
    from gpuprov.core.outcome import Outcome
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.models import Role


def clone_node(
    driver: Driver, source: str, name: str, host: HostGpus, *, address: str | None, reporter: Reporter
) -> Outcome:
    """Copy a stopped node's disk into a new node of its cluster.

    Raises:
        UsageError: The source runs (its files would be copied half-written), or the name or address cannot be had.
    """
    node = get_node(driver, source)
    copy = driver.find_node(name)
    if node.status == "running" and not (copy and copy.complete):  # else create_node says what is to be said
        raise UsageError(
            f"{source} is running; a copy could contain half-written files",
            evidence=f"status: {node.status}",
            fix=f"gpuprov stop {source}; gpuprov clone {source} {name}; gpuprov start {source}",
        )
    order = NodeOrder(
        name=name,
        cluster=node.labels[LABEL_CLUSTER],
        address=address,
        role=cast("Role", node.labels[LABEL_ROLE]),
        source=source,
    )
    return create_node(driver, order, host, reporter=reporter)
