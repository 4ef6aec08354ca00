"""Bring a cluster to a state, or say what that would change: `cluster up` and `cluster down` for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpuprov.cluster.state import observe_cluster
from gpuprov.planes.before_after import BeforeAfter
from gpuprov.planes.cluster_order import ClusterOrder, resolve_name, resolve_spec
from gpuprov.planes.rows import cluster_rows, state_rows
from gpuprov.workflows.cluster_down import cluster_down
from gpuprov.workflows.cluster_up import UpOrder, cluster_up, preview_up

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host

ClusterGoal = Literal["present", "absent"]


def ensure_cluster(
    driver: Driver,
    order: ClusterOrder,
    goal: ClusterGoal,
    host: Host,
    *,
    reporter: Reporter,
    check: bool = False,
) -> BeforeAfter:
    """Bring a cluster to its goal, and prove it where the order says so; with `check`, only say what would change.

    Raises:
        GpuprovError: It is refused, or failed; what this run made is removed again.
    """
    if goal == "absent":
        return _absent(driver, order, host, reporter, check=check)
    draft, seen = resolve_spec(driver, order)
    spec = draft.spec
    before = state_rows(driver, seen)
    wanted = UpOrder(spec=spec, left=draft.left, seen=seen, verify=order.verify, prune=order.prune, policy=order.policy)
    if check:
        changes = preview_up(driver, wanted, host, reporter=reporter).changes
        return BeforeAfter(changed=changes, before=before, after=before)
    result = cluster_up(driver, wanted, host, reporter=reporter)
    return BeforeAfter(
        changed=result.changed, before=before, after=cluster_rows(driver, spec.name), report=result.report
    )


def _absent(driver: Driver, order: ClusterOrder, host: Host, reporter: Reporter, *, check: bool) -> BeforeAfter:
    name = resolve_name(order)
    before = cluster_rows(driver, name)
    if check:
        state = observe_cluster(driver, name)
        nodes = [f"removed node {node.name}" for node in state.nodes]
        networks = [f"removed network {network.name}" for network in state.own_networks]
        return BeforeAfter(changed=(*nodes, *networks), before=before, after=before)
    done = cluster_down(driver, name, host, reporter=reporter, policy=order.policy)
    return BeforeAfter(changed=done.changed, before=before)
