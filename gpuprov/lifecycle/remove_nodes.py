"""`rm`: remove nodes for good; the other nodes of their clusters learn of it."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from gpuprov.cluster.find_node import find_runs_named, nodes_named
from gpuprov.cluster.nodes import delete_nodes
from gpuprov.cluster.replacements import read_replacements
from gpuprov.cluster.scrubbed import tell_of_leaving
from gpuprov.cluster.whole import recorded_whole
from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.core.outcome import Outcome, with_forced
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.lifecycle.changing import changing
from gpuprov.lifecycle.leaving import SPARE_JOBS, leaving
from gpuprov.lifecycle.out_of_service import NodesLeave, clusters_left
from gpuprov.lifecycle.renew import renew_clusters
from gpuprov.lifecycle.replacing import forget_replaced
from gpuprov.roles.departure import Departure
from gpuprov.roles.registry import ROLES
from gpuprov.spec.addressing import number_of_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpuprov.cluster.state import ClusterState, EngineState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.lifecycle.out_of_service import Leave
    from gpuprov.machine.base import Host
    from gpuprov.roles.base import Role


def remove_nodes(
    driver: Driver, names: Sequence[str], host: Host, *, reporter: Reporter, policy: JobsPolicy = SPARE_JOBS
) -> Outcome:
    """Remove nodes for good; one that is not there (any more) is no error, and is said.

    Args:
        policy: What becomes of jobs on them.

    Raises:
        UsageError: A job runs on one, nodes that would stay cannot work without one, or gpuprov did not make it.
    """
    runs: list[str] = []

    def reads(engine: EngineState) -> set[str]:
        """Their clusters, and those that may have had the ones that are gone."""
        gone = clusters_of_gone(engine, [name for name in names if engine.node(name) is None])
        return engine.clusters_of(names) | gone.intersection(node.labels.get(LABEL_CLUSTER) for node in engine.nodes)

    def look(engine: EngineState) -> NodesLeave:
        runs[:] = find_runs_named(names, [node.name for node in engine.nodes])
        nodes = nodes_named(driver, engine, [name for name in names if engine.node(name)])
        present = tuple(node.name for node in nodes)
        return clusters_left(engine, nodes, Departure(nodes=present, lost=present))

    with changing(driver, host, look, policy, reads=reads, reporter=reporter) as (named, readings):
        present = [node.name for node in named.nodes]
        for name in dict.fromkeys(names):
            if name not in present:
                run = f"; for the container of `gpuprov run`: gpuprov run rm {name}" if name in runs else ""
                reporter.note(f"there is no node {name}{run}")
        refusals = [_refusal(role, leave) for leave, role in product(named.leaves, ROLES.values())]
        for refusal in filter(None, refusals):
            if not policy.force:
                raise refusal
            reporter.warn(f"{refusal.what}: {refusal.evidence}")
        forced = {}
        if present:
            with leaving(driver, named.leaves, policy, reporter=reporter), reporter.phase("remove"):
                forced = delete_nodes(driver, present, reporter=reporter)
        tell_of_leaving([(leave.state, leave.departure.nodes) for leave in named.leaves], reporter)
        forget_replaced(driver, [reading.state for reading in readings.values()], names)
        renewed: tuple[str, ...] = ()
        try:  # where nothing is removed as well: a killed run may not have told the others
            renewed = renew_clusters(driver, readings, reporter=reporter)
        except GpuprovError as error:
            if not policy.force:
                raise
            reporter.warn(f"the other nodes were not updated: {error.what}: {error.evidence}; run gpuprov cluster up")
    return Outcome(changed=(*(with_forced("removed", name, forced) for name in present), *renewed))


def _refusal(role: Role, leave: Leave) -> UsageError | None:
    """Why nodes that stay could not work without these."""
    try:
        role.refuse_removing(leave.state, leave.departure.nodes)
    except UsageError as error:
        return error
    return None


def clusters_of_gone(engine: EngineState, names: Collection[str]) -> set[str]:
    """The clusters that name their nodes so, or have recorded one of these: a killed run may not have told the others.

    What is recorded on networks and cannot be read names nothing.
    """
    clusters = {network.labels[LABEL_CLUSTER] for network in engine.networks if network.ours}
    return {name for name in clusters if names and _may_have_had(engine.cluster(name), names)}


def _may_have_had(state: ClusterState, names: Collection[str]) -> bool:
    prefix = state.settled.nodes.prefix if state.settled else None
    if prefix is not None and any(number_of_name(name, prefix=prefix) is not None for name in names):
        return True
    try:
        whole = recorded_whole(state)
        recorded = {*read_replacements(state), *(whole.homes if whole else ())}
    except GpuprovError:
        return False
    return not recorded.isdisjoint(names)
