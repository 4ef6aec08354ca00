"""`start`, `stop`, `snapshot` and `restore`: nodes that are there, and keep their GPUs while they are stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.find_node import clusters_of, get_node
from gpuprov.cluster.network_plan import open_networks
from gpuprov.cluster.networks import isolate_networks
from gpuprov.cluster.nodes import boot_nodes, halt_nodes
from gpuprov.cluster.shared_addresses import refuse_shared_addresses
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import UsageError
from gpuprov.core.outcome import Outcome, with_forced
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.planes.across.hold import Leave
from gpuprov.planes.across.leaving import SPARE_JOBS, drained, leaving
from gpuprov.planes.across.reading import read_then_lock
from gpuprov.planes.across.renew import renew_clusters
from gpuprov.planes.base import Departure, without_started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.host.base import Host
    from gpuprov.planes.across.leaving import JobsPolicy


def start_nodes(driver: Driver, names: Sequence[str], host: Host, *, reporter: Reporter) -> Outcome:
    """Start nodes; files that changed while they were away are renewed."""
    with read_then_lock(driver, host, lambda: clusters_of(driver, names), reporter=reporter) as readings:
        nodes = {node.name: node for reading in readings.values() for node in reading.state.nodes}
        networks = {network.name: network for reading in readings.values() for network in reading.state.networks}
        stopped = [
            name for name in dict.fromkeys(names) if (nodes.get(name) or get_node(driver, name)).status != "running"
        ]
        if stopped:
            refuse_shared_addresses(stopped, driver.list_nodes(), command=driver.command)
        isolated = isolate_networks(driver, open_networks(networks.values(), readings), reporter=reporter)
        if stopped:
            with reporter.phase("start"):
                boot_nodes(driver, stopped, reporter=reporter)
        renewed = renew_clusters(driver, readings, reporter=reporter, networks_stay=True)
    renewed = without_started(renewed, stopped)
    return Outcome(changed=(*isolated, *(f"started {name}" for name in stopped), *renewed))


def stop_nodes(
    driver: Driver, names: Sequence[str], host: Host, *, reporter: Reporter, policy: JobsPolicy = SPARE_JOBS
) -> Outcome:
    """Stop nodes.

    Raises:
        UsageError: A job runs on one, or gpuprov did not make it.
    """

    def look() -> list[Leave]:
        departure = Departure(nodes=tuple(dict.fromkeys(names)))
        clusters = sorted({get_node(driver, name).labels[LABEL_CLUSTER] for name in departure.nodes})
        return [Leave(state=observe_cluster(driver, cluster), departure=departure) for cluster in clusters]

    with drained(driver, look, policy, reporter=reporter), host.lock(reporter):
        leaves = look()
        nodes = [node for leave in leaves for node in leave.state.nodes if node.name in names]
        running = [node.name for node in nodes if node.status != "stopped"]
        forced = {}
        with leaving(driver, leaves, policy, reporter=reporter, stopping=True) as released:
            if running:
                with reporter.phase("stop"):
                    forced = halt_nodes(driver, running)
    return Outcome(changed=(*(with_forced("stopped", name, forced) for name in running), *released))


def snapshot(
    driver: Driver, name: str, label: str, host: Host, *, reporter: Reporter, policy: JobsPolicy = SPARE_JOBS
) -> Outcome:
    """Keep a node's present state under a name; a snapshot that has this name stays as it is, and that is said.

    Raises:
        UsageError: A job runs on it and would stand still for too long, or gpuprov did not make the node.
    """
    changed: tuple[str, ...] = ()
    with (
        drained(driver, lambda: _pauses(driver, get_node(driver, name), label), policy, reporter=reporter),
        host.lock(reporter),
    ):
        node = get_node(driver, name)
        leaves = _pauses(driver, node, label)
        with leaving(driver, leaves, policy, reporter=reporter, stopping=True) as released:
            if label in node.snapshots:
                reporter.warn(f"{name} already has a snapshot {label}; it is kept unchanged")
            else:
                with reporter.phase("snapshot"):
                    driver.snapshot_node(name, label)
                changed = (f"took snapshot {label} of {name}",)
    return Outcome(changed=(*changed, *released))


def restore(
    driver: Driver, name: str, label: str, host: Host, *, reporter: Reporter, policy: JobsPolicy = SPARE_JOBS
) -> Outcome:
    """Bring a node back to a snapshot; it runs again if it ran before. It acts each time.

    Raises:
        UsageError: A job runs on it, there is no such snapshot, or gpuprov did not make the node.
    """
    with (
        drained(driver, lambda: _stops(driver, _get_with(driver, name, label)), policy, reporter=reporter),
        read_then_lock(driver, host, lambda: clusters_of(driver, [name]), reporter=reporter) as readings,
    ):
        node = _get_with(driver, name, label)
        leaves = _stops(driver, node)
        running = node.status == "running"
        if running:  # it starts again
            refuse_shared_addresses([name], driver.list_nodes(), command=driver.command)
        others = {cluster: reading.without([name]) for cluster, reading in readings.items() if running}
        with leaving(driver, leaves, policy, reporter=reporter):
            with reporter.phase("restore"):
                forced = driver.restore_node(name, label)
            renewed = renew_clusters(driver, others, reporter=reporter, networks_stay=True)
    words = f" ({forced})" if forced else ""
    return Outcome(changed=(f"restored {name} to {label}{words}", *renewed))


def _pauses(driver: Driver, node: NodeState, label: str) -> list[Leave]:
    """The node, where it stands still for a snapshot: Slurm takes one that does not answer for dead."""
    if node.status == "stopped" or not driver.snapshot_pauses:
        return []
    pausing = () if label in node.snapshots else (node.name,)
    state = observe_cluster(driver, node.labels[LABEL_CLUSTER])
    return [Leave(state=state, departure=Departure(nodes=pausing))]


def _stops(driver: Driver, node: NodeState) -> list[Leave]:
    """The node, which stops for its restoration and loses its disk."""
    state = observe_cluster(driver, node.labels[LABEL_CLUSTER])
    return [Leave(state=state, departure=Departure(nodes=(node.name,), lost=(node.name,)))]


def _get_with(driver: Driver, name: str, label: str) -> NodeState:
    """The node, which has this snapshot."""
    node = get_node(driver, name)
    if label not in node.snapshots:
        raise UsageError(
            f"{name} has no snapshot {label}",
            evidence=f"snapshots: {', '.join(node.snapshots) or 'none'}",
            fix=f"create one: gpuprov snapshot {name} {label}",
        )
    return node
