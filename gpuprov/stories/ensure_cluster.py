"""Bring a cluster to a state, idempotently: for Ansible, by the stories that do so for a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpuprov.cluster.retry_after_wait import act_on_engine
from gpuprov.cluster.state import observe_cluster
from gpuprov.fleet.find_hosted import find_spanning, machine_of
from gpuprov.fleet.here import find_over_hosts
from gpuprov.fleet.hosts_down import down_over_hosts
from gpuprov.lifecycle.before_after import BeforeAfter
from gpuprov.lifecycle.cluster_down import cluster_down
from gpuprov.lifecycle.cluster_order import resolve_engine, resolve_name, resolve_spanning
from gpuprov.lifecycle.rows import state_rows
from gpuprov.stories.cluster_up import bring_up, plan_cluster

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.lifecycle.cluster_order import ClusterOrder
    from gpuprov.machine.base import Host

ClusterGoal = Literal["present", "absent"]


def ensure_cluster(fleet: Fleet, order: ClusterOrder, goal: ClusterGoal, *, check: bool = False) -> BeforeAfter:
    """Bring a cluster to its goal, and prove it where the order says so; with `check`, only say what would change.

    Args:
        goal: What is to become of it.
        check: Whether nothing is to be changed.

    Raises:
        GpuprovError: It is refused, or failed; what this run made on a host that failed is removed again, and what
            other hosts did stays.
    """
    if goal == "absent":
        return _remove(fleet, order, check=check)
    if check:
        planned = plan_cluster(fleet, order, tell_before=True)
        if planned.error:
            raise planned.error
        return BeforeAfter(changed=planned.lines, before=planned.before, after=planned.before)
    done = bring_up(fleet, order, tell_before=True)
    if done.error:
        raise done.error
    return BeforeAfter(changed=done.outcome.changed, before=done.before, after=done.rows, report=done.report)


def _remove(fleet: Fleet, order: ClusterOrder, *, check: bool) -> BeforeAfter:
    draft = resolve_spanning(order, order.engine, None)  # of the file alone
    if draft is not None:
        machines = {one.name: machine_of(one, fleet.others) for one in draft.spec.hosts}
        seen = find_spanning(draft.spec.name, machines, fleet.connect())
        return _remove_over_hosts(seen, fleet, order, check=check) if seen else BeforeAfter()
    asks = order.file is None and order.engine is None
    seen = find_over_hosts(fleet, resolve_name(order)) if asks else None
    if seen is not None:
        return _remove_over_hosts(seen, fleet, order, check=check)
    return act_on_engine(
        fleet.here,
        lambda: resolve_engine(fleet.here, order.engine, order, creates=False, reporter=fleet.reporter),
        lambda driver, host: _remove_here(driver, fleet, order, host, check=check),
    )


def _remove_over_hosts(seen: SpanningCluster, fleet: Fleet, order: ClusterOrder, *, check: bool) -> BeforeAfter:
    if check:
        lines = tuple(f"{row.host}: removed node {row.name}" for row in seen.rows)
        return BeforeAfter(changed=lines, before=seen.rows, after=seen.rows)
    done = down_over_hosts(seen, fleet.connect(), order.policy)
    if done.error:
        raise done.error
    return BeforeAfter(changed=done.outcome.changed, before=seen.rows)


def _remove_here(driver: Driver, fleet: Fleet, order: ClusterOrder, host: Host, *, check: bool) -> BeforeAfter:
    name = resolve_name(order)
    state = observe_cluster(driver, name)
    before = state_rows(driver, state)
    if check:
        nodes = [f"removed node {node.name}" for node in state.nodes]
        networks = [f"removed network {network.name}" for network in state.own_networks]
        return BeforeAfter(changed=(*nodes, *networks), before=before, after=before)
    done = cluster_down(driver, name, host, reporter=fleet.reporter, policy=order.policy)
    return BeforeAfter(changed=done.changed, before=before)
