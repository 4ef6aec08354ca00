"""`cluster down`: remove everything that carries the cluster's label, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.lock import host_lock
from gpuprov.core.names import check_cluster_name
from gpuprov.core.outcome import Outcome
from gpuprov.workflows.build_image import BUILDER
from gpuprov.workflows.cluster_state import observe_cluster
from gpuprov.workflows.create_nodes import delete_nodes
from gpuprov.workflows.secrets import remove_keys

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver


def cluster_down(driver: Driver, name: str, *, reporter: Reporter) -> Outcome:
    """Remove a cluster's nodes, networks (with their NAT rules) and this user's keys; images stay for the next time.

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
        if remove_keys(name):
            changed.append("removed the ssh keys")
    return Outcome(changed=tuple(changed))
