"""`rm`: remove nodes for good; the other nodes of their clusters learn of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.find_node import get_node
from gpuprov.cluster.nodes import delete_nodes
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.outcome import Outcome
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.planes.registry import PLANES
from gpuprov.planes.renew import renew_clusters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host


def remove_nodes(driver: Driver, names: Sequence[str], host: Host, *, reporter: Reporter) -> Outcome:
    """Remove nodes for good; one that is not there (any more) is no error, and is said.

    Raises:
        UsageError: A job runs on one, nodes that would stay cannot work without one, or gpuprov did not make it.
    """
    with host.lock(reporter):
        absent = [name for name in dict.fromkeys(names) if driver.find_node(name) is None]
        nodes = [get_node(driver, name) for name in dict.fromkeys(names) if name not in absent]
        leaving = [node.name for node in nodes]
        for name in absent:
            reporter.note(f"there is no node {name}")
        clusters = {node.labels[LABEL_CLUSTER] for node in (driver.list_nodes() if absent else nodes) if node.ours}
        for cluster in clusters:
            state = observe_cluster(driver, cluster)
            for plane in PLANES.values():
                plane.refuse_leaving(driver, state, leaving, for_good=True)
        if leaving:
            with reporter.phase("remove"):
                delete_nodes(driver, leaving, reporter=reporter)
        renewed = renew_clusters(driver, clusters, reporter=reporter)  # also what a killed run has not told the others
    return Outcome(changed=(*(f"removed {name}" for name in leaving), *renewed))
