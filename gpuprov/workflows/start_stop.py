"""`start` and `stop`: nodes that are there, and keep their GPUs while they are stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.find_node import get_node
from gpuprov.cluster.nodes import boot_nodes
from gpuprov.cluster.shared_addresses import refuse_shared_addresses
from gpuprov.core.outcome import Outcome
from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.planes.renew import renew_clusters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host


def start_nodes(driver: Driver, names: Sequence[str], host: Host, *, reporter: Reporter) -> Outcome:
    """Start nodes; files that changed while they were away are renewed."""
    with host.lock(reporter):
        nodes = [get_node(driver, name) for name in dict.fromkeys(names)]
        stopped = [node.name for node in nodes if node.status != "running"]
        if stopped:
            refuse_shared_addresses(stopped, driver.list_nodes(), command=driver.command)
            with reporter.phase("start"):
                boot_nodes(driver, stopped, reporter=reporter)
        renewed = renew_clusters(driver, {node.labels[LABEL_CLUSTER] for node in nodes}, reporter=reporter)
    return Outcome(changed=(*(f"started {name}" for name in stopped), *renewed))


def stop_nodes(driver: Driver, names: Sequence[str], host: Host, *, reporter: Reporter) -> Outcome:
    """Stop nodes."""
    with host.lock(reporter):
        nodes = [get_node(driver, name) for name in dict.fromkeys(names)]
        running = [node.name for node in nodes if node.status != "stopped"]
        if running:
            with reporter.phase("stop"):
                each(driver.stop_node, running)
    return Outcome(changed=tuple(f"stopped {name}" for name in running))
