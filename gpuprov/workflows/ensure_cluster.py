"""Bring a cluster to a state, or say what that would change: `cluster up` and `cluster down` for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpuprov.cluster.order import Wishes, wanted_name, wanted_spec
from gpuprov.cluster.state import observe_cluster
from gpuprov.planes.converged import Ensured
from gpuprov.planes.rows import cluster_status
from gpuprov.workflows.cluster_down import cluster_down
from gpuprov.workflows.cluster_up import Request, cluster_up, plan_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.models import GpuMode

ClusterGoal = Literal["present", "absent"]


def ensure_cluster(
    driver: Driver,
    wishes: Wishes,
    goal: ClusterGoal,
    *,
    observe_gpus: Callable[[GpuMode], HostGpus],
    reporter: Reporter,
    check: bool = False,
) -> Ensured:
    """Bring a cluster to its goal; with `check`, only say what would change.

    Raises:
        GpuprovError: It is refused, or failed; what this run made is removed again.
    """
    if goal == "absent":
        return _absent(driver, wishes, reporter, check=check)
    spec = wanted_spec(driver, wishes)
    host = observe_gpus(spec.gpus.mode)
    before = cluster_status(driver, spec.name)
    if check:
        return Ensured(changed=plan_up(driver, spec, host), before=before, after=before)
    outcome = cluster_up(driver, Request(spec=spec), host, reporter=reporter)
    return Ensured(changed=outcome.changed, before=before, after=cluster_status(driver, spec.name))


def _absent(driver: Driver, wishes: Wishes, reporter: Reporter, *, check: bool) -> Ensured:
    name = wanted_name(wishes)
    before = cluster_status(driver, name)
    if check:
        state = observe_cluster(driver, name)
        nodes = [f"removed node {node.name}" for node in state.nodes]
        networks = [f"removed network {network.name}" for network in state.own_networks]
        return Ensured(changed=(*nodes, *networks), before=before, after=before)
    return Ensured(changed=cluster_down(driver, name, reporter=reporter).changed, before=before)
