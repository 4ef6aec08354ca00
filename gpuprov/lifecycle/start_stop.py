"""`start`, `stop`, `snapshot` and `restore`: nodes that are there, and keep their GPUs while they are stopped."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.find_node import get_node, nodes_named
from gpuprov.cluster.network_plan import open_networks
from gpuprov.cluster.networks import isolate_networks
from gpuprov.cluster.nodes import boot_nodes, halt_nodes
from gpuprov.cluster.shared_addresses import refuse_shared_addresses
from gpuprov.cluster.state import EngineState
from gpuprov.core.errors import UsageError
from gpuprov.core.nearest import ask_back, find_nearest
from gpuprov.core.outcome import Outcome, with_forced
from gpuprov.lifecycle.changing import changing
from gpuprov.lifecycle.leaving import SPARE_JOBS, leaving
from gpuprov.lifecycle.out_of_service import NodesLeave, clusters_left
from gpuprov.lifecycle.renew import renew_clusters
from gpuprov.roles.crew import without_started
from gpuprov.roles.departure import Departure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.machine.base import Host


def start_nodes(driver: Driver, names: Sequence[str], host: Host, *, reporter: Reporter) -> Outcome:
    """Start nodes; files that changed while they were away are renewed."""

    def look(engine: EngineState) -> NodesLeave:
        return NodesLeave(nodes=nodes_named(driver, engine, names), leaves=())

    reads = partial(EngineState.clusters_of, names=names)
    with changing(driver, host, look, reads=reads, reporter=reporter) as (named, readings):
        stopped = [node.name for node in named.nodes if node.status != "running"]
        if stopped:
            refuse_shared_addresses(stopped, driver.list_nodes(), command=driver.command)
        networks = {network.name: network for reading in readings.values() for network in reading.state.networks}
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

    def look(engine: EngineState) -> NodesLeave:
        nodes = nodes_named(driver, engine, names)
        return clusters_left(engine, nodes, Departure(nodes=tuple(node.name for node in nodes)))

    with (
        changing(driver, host, look, policy, reporter=reporter) as (named, _),
        leaving(driver, named.leaves, policy, reporter=reporter, stopping=True) as released,
    ):
        running = [node.name for node in named.nodes if node.status != "stopped"]
        forced = {}
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

    def look(engine: EngineState) -> NodesLeave:
        """Where the node stands still for a snapshot, Slurm takes it for dead."""
        node = get_node(driver, name)
        if node.status == "stopped" or not driver.snapshot_pauses:
            return NodesLeave(nodes=[node], leaves=())
        return clusters_left(engine, [node], Departure(nodes=() if label in node.snapshots else (name,)))

    changed: tuple[str, ...] = ()
    with (
        changing(driver, host, look, policy, reporter=reporter) as (named, _),
        leaving(driver, named.leaves, policy, reporter=reporter, stopping=True) as released,
    ):
        if label in named.nodes[0].snapshots:
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

    def look(engine: EngineState) -> NodesLeave:
        """The node stops for its restoration, and loses its disk."""
        return clusters_left(engine, [_get_with(driver, name, label)], Departure(nodes=(name,), lost=(name,)))

    reads = partial(EngineState.clusters_of, names=[name])
    with changing(driver, host, look, policy, reads=reads, reporter=reporter) as (named, readings):
        running = named.nodes[0].status == "running"
        if running:  # it starts again
            refuse_shared_addresses([name], driver.list_nodes(), command=driver.command)
        others = {cluster: found.without([name]) for cluster, found in readings.items() if running}
        with leaving(driver, named.leaves, policy, reporter=reporter):
            with reporter.phase("restore"):
                forced = driver.restore_node(name, label)
            renewed = renew_clusters(driver, others, reporter=reporter, networks_stay=True)
    words = f" ({forced})" if forced else ""
    return Outcome(changed=(f"restored {name} to {label}{words}", *renewed))


def _get_with(driver: Driver, name: str, label: str) -> NodeState:
    """The node, which has this snapshot."""
    node = get_node(driver, name)
    if label not in node.snapshots:
        near = find_nearest(label, node.snapshots) or (node.snapshots[-1] if node.snapshots else "")
        raise UsageError(
            f"{name} has no snapshot {label}{ask_back([label], node.snapshots)}",
            evidence=f"snapshots: {', '.join(node.snapshots) or 'none'}",
            fix=f"gpuprov restore {name} {near}" if near else f"create one: gpuprov snapshot {name} {label}",
        )
    return node
