"""Verbs on single nodes: start, stop, remove, snapshot, restore, expose; the other nodes of the cluster learn of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.nodes import delete_nodes, start_nodes
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import UsageError
from gpuprov.core.outcome import Outcome
from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import LABEL_CLUSTER, Exposure
from gpuprov.planes.registry import PLANES
from gpuprov.planes.renew import renew_clusters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.host.base import Host

_PORT_MAX = 65535


def get_node(driver: Driver, name: str) -> NodeState:
    """A node of ours.

    Raises:
        UsageError: There is none of that name; foreign instances are not ours to show or touch.
    """
    node = driver.find_node(name)
    if node is None or not node.ours:
        raise UsageError(
            f"there is no node {name}",
            evidence=f"{driver.name} has an instance {name} that gpuprov did not create"
            if node
            else f"nodes: {', '.join(n.name for n in driver.list_nodes() if n.ours) or 'none'}",
            fix="list the nodes: gpuprov list",
        )
    return node


def get_running(driver: Driver, name: str) -> NodeState:
    """A node of ours that runs.

    Raises:
        UsageError: There is none of that name, or it does not run.
    """
    node = get_node(driver, name)
    if node.status != "running":
        raise UsageError(f"{name} is not running", evidence=f"it is {node.status}", fix=f"gpuprov start {name}")
    return node


def start(driver: Driver, names: Sequence[str], host: Host, *, reporter: Reporter) -> Outcome:
    """Start nodes; files that changed while they were away are renewed."""
    with host.lock(reporter):
        nodes = [get_node(driver, name) for name in dict.fromkeys(names)]
        stopped = [node.name for node in nodes if node.status != "running"]
        if stopped:
            with reporter.phase("start"):
                start_nodes(driver, stopped, reporter=reporter)
        renewed = renew_clusters(driver, {node.labels[LABEL_CLUSTER] for node in nodes}, reporter=reporter)
    return Outcome(changed=(*(f"started {name}" for name in stopped), *renewed))


def stop(driver: Driver, names: Sequence[str], host: Host, *, reporter: Reporter) -> Outcome:
    """Stop nodes."""
    with host.lock(reporter):
        nodes = [get_node(driver, name) for name in dict.fromkeys(names)]
        running = [node.name for node in nodes if node.status != "stopped"]
        if running:
            with reporter.phase("stop"):
                each(driver.stop_node, running)
    return Outcome(changed=tuple(f"stopped {name}" for name in running))


def remove(driver: Driver, names: Sequence[str], host: Host, *, reporter: Reporter) -> Outcome:
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
    with reporter.phase("restore"):
        driver.restore_node(name, label)
    renewed = (
        renew_clusters(driver, {node.labels[LABEL_CLUSTER]}, reporter=reporter) if node.status == "running" else ()
    )
    return Outcome(changed=(f"restored {name} to {label}", *renewed))


def expose(driver: Driver, name: str, exposure: Exposure, host: Host, *, reporter: Reporter) -> Outcome:
    """Forward a port of the host into a node; no change if it is already.

    Raises:
        NotCapable: The node runs, and the engine forwards ports into stopped nodes only.
    """
    for port in (exposure.host_port, exposure.node_port):
        if not 1 <= port <= _PORT_MAX:
            raise UsageError(f"{port} is not a port", evidence=f"allowed: 1 to {_PORT_MAX}", fix="choose another port")
    get = get_running if "expose-live" in driver.capabilities else get_node
    with host.lock(reporter):
        if exposure in get(driver, name).exposed:
            return Outcome()
        for other in driver.list_nodes():
            if exposure.host_port in [taken.host_port for taken in other.exposed]:
                raise UsageError(
                    f"port {exposure.host_port} of the host is already forwarded",
                    evidence=f"it is forwarded to {other.name}",
                    fix=f"choose another --port, or: gpuprov unexpose {other.name} {exposure.host_port}",
                )
        with reporter.phase("expose"):
            driver.expose(name, exposure)
    return Outcome(changed=(f"port {exposure.host_port} of the host is forwarded to {name}:{exposure.node_port}",))


def unexpose(driver: Driver, name: str, host_port: int, host: Host, *, reporter: Reporter) -> Outcome:
    """Undo `expose`; no change if that port does not lead to the node."""
    with host.lock(reporter):
        if host_port not in [exposure.host_port for exposure in get_node(driver, name).exposed]:
            reporter.note(f"port {host_port} of the host is not forwarded to {name}")
            return Outcome()
        with reporter.phase("unexpose"):
            driver.unexpose(name, host_port)
    return Outcome(changed=(f"port {host_port} of the host is no longer forwarded",))
