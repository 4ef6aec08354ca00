"""After nodes came, went, started or stopped: hosts files and Slurm of their clusters follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.state import observe_cluster
from gpuprov.drivers.base import LABEL_ROLE, ROLE_JOB
from gpuprov.planes.files import plan_files
from gpuprov.planes.slurm import control as slurm
from gpuprov.planes.slurm.files import present_member
from gpuprov.spec.models import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver


def follow(driver: Driver, clusters: Iterable[str], *, reporter: Reporter) -> tuple[str, ...]:
    """Bring hosts files and Slurm of the clusters to the nodes that are there now; one line for each change."""
    return tuple(line for name in sorted(clusters) for line in follow_cluster(driver, name, reporter=reporter))


def follow_cluster(driver: Driver, name: str, *, reporter: Reporter) -> tuple[str, ...]:
    """Bring one cluster's files to its running nodes, unless its Slurm controller is away."""
    state = observe_cluster(driver, name)
    spec = state.spec or ClusterSpec(name=name)
    complete = [node for node in state.nodes if node.complete and node.labels.get(LABEL_ROLE) != ROLE_JOB]
    controller = state.node(slurm.controller_name(spec))
    if not complete or (state.slurm_nodes and (controller is None or controller.status != "running")):
        return ()
    members = [present_member(node) for node in complete]
    running = [node.name for node in complete if node.status == "running"]
    files = plan_files(driver, spec, state, members, {}, controller=slurm.controller_name(spec))
    up = [member for member in members if member.name in running]
    with reporter.phase("slurm"):
        return slurm.renew_files(driver, spec, up, running, files.kept, reporter=reporter)
