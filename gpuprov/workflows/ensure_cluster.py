"""Bring a cluster to a state, or say what that would change: `cluster up` and `cluster down` for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpuprov.cluster.retry_after_wait import act_on, act_on_engine
from gpuprov.cluster.state import observe_cluster
from gpuprov.planes.cluster_order import ClusterOrder, resolve_name, resolve_spec
from gpuprov.planes.module_result import BeforeAfter
from gpuprov.planes.rows import cluster_rows, state_rows
from gpuprov.workflows.cluster_down import cluster_down
from gpuprov.workflows.cluster_up import UpOrder, cluster_up, preview_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.spec.draft import Draft

ClusterGoal = Literal["present", "absent"]


def ensure_cluster(
    find: Callable[[], Driver],
    order: ClusterOrder,
    goal: ClusterGoal,
    host: Host,
    *,
    reporter: Reporter,
    check: bool = False,
) -> BeforeAfter:
    """Bring a cluster to its goal, and prove it where the order says so; with `check`, only say what would change.

    Args:
        find: Finds the engine; engine and spec are found again where another run was waited for.
        order: The cluster.
        goal: What is to become of it.
        host: The machine.
        reporter: Is told what goes on.
        check: Whether nothing is to be changed.

    Raises:
        GpuprovError: It is refused, or failed; what this run made is removed again.
    """
    if goal == "absent":
        return act_on_engine(host, find, lambda driver, host: _absent(driver, order, host, reporter, check=check))

    def settle() -> tuple[Driver, Draft, ClusterState]:
        driver = find()
        return driver, *resolve_spec(driver, order)

    def provide(found: tuple[Driver, Draft, ClusterState], host: Host) -> BeforeAfter:
        driver, draft, seen = found
        spec, before = draft.spec, state_rows(driver, seen)
        wanted = UpOrder(
            spec=spec, left=draft.left, seen=seen, verify=order.verify, prune=order.prune, policy=order.policy
        )
        if check:
            changes = preview_up(driver, wanted, host, reporter=reporter).changes
            return BeforeAfter(changed=changes, before=before, after=before)
        result = cluster_up(driver, wanted, host, reporter=reporter)
        after = cluster_rows(driver, spec.name)
        return BeforeAfter(changed=result.changed, before=before, after=after, report=result.report)

    return act_on(host, settle, provide, key=lambda found: found[1])  # whose spec names the engine as well


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
