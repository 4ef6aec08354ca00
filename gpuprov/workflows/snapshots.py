"""`snapshot` and `restore`: a node's state kept under a name, and brought back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.find_node import get_node
from gpuprov.cluster.shared_addresses import refuse_shared_addresses
from gpuprov.core.errors import UsageError
from gpuprov.core.outcome import Outcome
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.planes.renew import renew_clusters

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.host.base import Host


def snapshot(driver: Driver, name: str, label: str, host: Host, *, reporter: Reporter) -> Outcome:
    """Keep a node's present state under a name; a snapshot that has this name stays as it is, and that is said."""
    with host.lock(reporter):
        if label in get_node(driver, name).snapshots:
            reporter.warn(f"{name} already has a snapshot {label}; it is kept unchanged")
            return Outcome()
        with reporter.phase("snapshot"):
            driver.snapshot_node(name, label)
    return Outcome(changed=(f"took snapshot {label} of {name}",))


def restore(driver: Driver, name: str, label: str, host: Host, *, reporter: Reporter) -> Outcome:
    """Bring a node back to a snapshot; it runs again if it ran before. It acts each time."""
    with host.lock(reporter):
        return _restore(driver, get_node(driver, name), label, reporter=reporter)


def _restore(driver: Driver, node: NodeState, label: str, *, reporter: Reporter) -> Outcome:
    name = node.name
    if label not in node.snapshots:
        raise UsageError(
            f"{name} has no snapshot {label}",
            evidence=f"snapshots: {', '.join(node.snapshots) or 'none'}",
            fix=f"gpuprov snapshot {name} {label} creates one",
        )
    if node.status == "running":  # it starts again
        refuse_shared_addresses([name], driver.list_nodes(), command=driver.command)
    with reporter.phase("restore"):
        driver.restore_node(name, label)
    renewed = (
        renew_clusters(driver, {node.labels[LABEL_CLUSTER]}, reporter=reporter) if node.status == "running" else ()
    )
    return Outcome(changed=(f"restored {name} to {label}", *renewed))
