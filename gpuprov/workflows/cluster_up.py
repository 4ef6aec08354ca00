"""`cluster up`: bring a cluster to what its spec says, changing only what differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.cluster.design import with_offers
from gpuprov.cluster.images import images_for
from gpuprov.cluster.leases import host_neighbours
from gpuprov.cluster.networks import ensure_networks, record_spec
from gpuprov.cluster.nodes import Run, create_nodes, delete_nodes, repair_nodes, start_nodes
from gpuprov.cluster.plan import Plan, plan_cluster
from gpuprov.cluster.room import refuse_host_conflicts
from gpuprov.cluster.secrets import undo_new_keys
from gpuprov.cluster.state import ClusterState, observe_cluster
from gpuprov.core.lock import host_lock
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import Rollback
from gpuprov.planes.files import plan_files
from gpuprov.planes.slurm import control as slurm
from gpuprov.planes.slurm.control import controller_name, outdated, renew_files, renewal_lines
from gpuprov.planes.slurm.files import planned_member
from gpuprov.spec.serialize import dump_spec
from gpuprov.spec.validate import check_spec

if TYPE_CHECKING:
    from gpuprov.cluster.leases import Neighbours
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.models import ClusterSpec


@dataclass(frozen=True, kw_only=True)
class Request:
    """What `cluster up` is asked for.

    Attributes:
        keep_on_failure: Leave what this run made for a look, instead of removing it.
    """

    spec: ClusterSpec
    keep_on_failure: bool = False


def cluster_up(
    driver: Driver, request: Request, host: HostGpus, *, reporter: Reporter, neighbours: Neighbours | None = None
) -> Outcome:
    """Ensure networks, image, nodes and Slurm.

    Args:
        driver: The engine.
        request: What is asked for.
        host: Its GPUs.
        reporter: Is told what goes on.
        neighbours: Know who else holds GPUs; this host's other engines and its queue where None.

    Returns:
        What changed; empty if the cluster already was as asked.

    Raises:
        GpuprovError: Something refused or failed; what this run made is removed again.
    """
    spec = request.spec
    check_spec(spec)
    host = with_offers(driver, host)
    with host_lock(reporter), Rollback(reporter, keep=request.keep_on_failure) as rollback:
        with reporter.phase("plan"):
            state = observe_cluster(driver, spec.name)
            claims = (neighbours or host_neighbours()).claims(driver.name)
            plan = plan_cluster(spec, state, host, claims=claims, version=__version__, expect=driver)
            _refuse_what_hurts(driver, spec, state, plan)
        run = Run(driver=driver, reporter=reporter, rollback=rollback)
        done = _carry_out(run, spec, state, plan, host)
    return Outcome(changed=done)


def plan_up(
    driver: Driver, spec: ClusterSpec, host: HostGpus, *, neighbours: Neighbours | None = None
) -> tuple[str, ...]:
    """What `cluster_up` would change, one line each; raises what it would refuse, and changes nothing."""
    check_spec(spec)
    host = with_offers(driver, host)
    state = observe_cluster(driver, spec.name)
    claims = (neighbours or host_neighbours()).claims(driver.name)
    plan = plan_cluster(spec, state, host, claims=claims, version=__version__, expect=driver)
    _refuse_what_hurts(driver, spec, state, plan)
    running = [design.name for design in (*plan.keep, *plan.repair) if design.name not in plan.start]
    members = [planned_member(design) for design in plan.members]
    files = plan_files(driver, spec, state, members, {}, controller=controller_name(spec))
    return (*plan.lines(), *renewal_lines(outdated(driver, running, files.kept)))


def _refuse_what_hurts(driver: Driver, spec: ClusterSpec, state: ClusterState, plan: Plan) -> None:
    """Refuse, before anything changes, a plan that clashes with the host or would end a running job."""
    refuse_host_conflicts(driver, spec, networks=plan.networks, nodes=len(plan.create))
    members = {node.name for node in state.slurm_nodes if node.status == "running"}
    leaving = sorted(members & {*plan.remove, *plan.restart})
    controller = controller_name(spec)
    if leaving and controller in members and controller not in plan.remove:
        slurm.refuse_running_jobs(driver, controller, leaving)


def _carry_out(run: Run, spec: ClusterSpec, state: ClusterState, plan: Plan, host: HostGpus) -> tuple[str, ...]:
    driver, reporter = run.driver, run.reporter
    if plan.networks:
        with reporter.phase("networks"):
            ensure_networks(driver, plan.networks, run.rollback)
    if plan.network_repairs:
        with reporter.phase("network repair"):
            for request, _ in plan.network_repairs:
                driver.set_network_settings(request)
    images = images_for(driver, spec, plan, host, reporter=reporter)
    members = [planned_member(design) for design in plan.members]
    undo_new_keys(spec.name, run.rollback)
    files = plan_files(driver, spec, state, members, images, controller=controller_name(spec))
    if plan.remove:
        with reporter.phase("remove"):
            delete_nodes(driver, plan.remove, reporter=reporter)
    if plan.repair:
        with reporter.phase("repair"):
            settings = [name for name, drift in plan.drift.items() if drift.settings]
            repair_nodes(driver, plan.repair, settings=settings, restart=plan.restart, reporter=reporter)
    if plan.create or plan.start:
        with reporter.phase("nodes"):
            start_nodes(driver, plan.start, reporter=reporter)
            for role, image in images.items():
                designs = [design for design in plan.create if design.role == role]
                create_nodes(run, designs, image, files.for_new)
    old = [design.name for design in (*plan.keep, *plan.repair)]
    with reporter.phase("slurm"):
        refreshed = renew_files(driver, spec, members, old, files.kept, reporter=reporter)
    record_spec(driver, spec, dump_spec(spec), state)
    return (*plan.lines(), *refreshed)
