"""Bring a cluster to a state, or say what that would change: `cluster up` and `cluster down` for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpuprov.cluster.state import observe_cluster
from gpuprov.planes.cluster_order import Wishes, wanted_name, wanted_spec
from gpuprov.planes.converged import Ensured
from gpuprov.planes.rows import cluster_rows
from gpuprov.workflows.cluster_down import cluster_down
from gpuprov.workflows.cluster_up import UpOrder, cluster_up, plan_up

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host

ClusterGoal = Literal["present", "absent"]


def ensure_cluster(
    driver: Driver,
    wishes: Wishes,
    goal: ClusterGoal,
    host: Host,
    *,
    reporter: Reporter,
    check: bool = False,
) -> Ensured:
    """Bring a cluster to its goal, and prove it where the wishes say so; with `check`, only say what would change.

    Raises:
        GpuprovError: It is refused, or failed; what this run made is removed again.
    """
    if goal == "absent":
        return _absent(driver, wishes, host, reporter, check=check)
    spec = wanted_spec(driver, wishes)
    before = cluster_rows(driver, spec.name)
    if check:
        return Ensured(changed=plan_up(driver, spec, host, reporter=reporter), before=before, after=before)
    result = cluster_up(driver, UpOrder(spec=spec, verify=wishes.verify), host, reporter=reporter)
    return Ensured(changed=result.changed, before=before, after=cluster_rows(driver, spec.name), report=result.report)


def _absent(driver: Driver, wishes: Wishes, host: Host, reporter: Reporter, *, check: bool) -> Ensured:
    name = wanted_name(wishes)
    before = cluster_rows(driver, name)
    if check:
        state = observe_cluster(driver, name)
        nodes = [f"removed node {node.name}" for node in state.nodes]
        networks = [f"removed network {network.name}" for network in state.own_networks]
        return Ensured(changed=(*nodes, *networks), before=before, after=before)
    return Ensured(changed=cluster_down(driver, name, host, reporter=reporter).changed, before=before)
