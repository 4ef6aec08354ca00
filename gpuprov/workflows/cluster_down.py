"""`cluster down`: remove everything that carries the cluster's label, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.build_image import BUILDER
from gpuprov.cluster.find_engine import find_elsewhere
from gpuprov.cluster.nodes import delete_nodes
from gpuprov.cluster.secrets import key_folder, remove_keys
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.lock import host_lock
from gpuprov.core.names import check_cluster_name
from gpuprov.core.outcome import Outcome
from gpuprov.host.survey import host_doors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.survey import EngineDoor


def cluster_down(
    driver: Driver, name: str, *, reporter: Reporter, doors: Sequence[EngineDoor] | None = None
) -> Outcome:
    """Remove a cluster's nodes, networks (with their NAT rules) and this user's keys; images stay for the next time.

    The keys stay where another engine has, or may have, a cluster of that name: they are that one's too.

    Args:
        driver: The engine.
        name: The cluster.
        reporter: Is told what goes on.
        doors: All engines of this host; None for those that gpuprov drives.

    Raises:
        UsageError: It is no cluster's name; nothing was changed.
    """
    check_cluster_name(name)
    with host_lock(reporter):
        state = observe_cluster(driver, name)
        nodes = [node.name for node in state.nodes]
        if nodes:
            with reporter.phase("nodes"):
                delete_nodes(driver, nodes, reporter=reporter)
        networks = [network.name for network in state.own_networks]
        if networks:
            with reporter.phase("networks"):
                builder = driver.find_node(BUILDER)
                if builder is not None and builder.ours:  # a killed build's, which would hold the network
                    driver.delete_node(BUILDER)
                for network in networks:
                    driver.delete_network(network)
        changed = [*(f"removed node {node}" for node in nodes), *(f"removed network {network}" for network in networks)]
        if _remove_keys(driver, name, reporter, host_doors() if doors is None else doors):
            changed.append("removed the ssh keys")
    return Outcome(changed=tuple(changed))


def _remove_keys(driver: Driver, name: str, reporter: Reporter, doors: Sequence[EngineDoor]) -> bool:
    if not key_folder(name).exists():
        return False
    others = find_elsewhere(name, doors, without=driver.name)
    again = f"gpuprov cluster down {name} --engine {driver.name}"
    for words in others:
        reporter.warn(f"kept the ssh keys: {words}; once it is gone: {again}")
    return not others and remove_keys(name)
