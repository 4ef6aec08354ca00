"""What a controller asks of a host about one cluster: its part there, plan, up and down."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import UNSET

from gpuprov.cluster.find_engine import engine_of_cluster
from gpuprov.cluster.part import ClusterPart
from gpuprov.cluster.retry_after_wait import act_on_engine
from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.whole import recorded_whole
from gpuprov.core.errors import NoEngine, UsageError
from gpuprov.core.names import check_cluster_name
from gpuprov.core.rollback import AGAIN
from gpuprov.fleet.member.host_offer import Way, look_for_more
from gpuprov.fleet.member.host_part import look_at_part, with_disks
from gpuprov.fleet.member.told_part import fingerprint_of, tell_no_engine, tell_part, tell_record
from gpuprov.fleet.member.unreachable import tell_roles
from gpuprov.lifecycle.cluster_down import cluster_down, foresee_losses
from gpuprov.lifecycle.cluster_up import UpOrder, cluster_up, preview_up
from gpuprov.lifecycle.leaving import JobsPolicy
from gpuprov.shapes.base import of_object, text_of
from gpuprov.shapes.members import (
    NOTHING,
    ClusterRecord,
    HostLosses,
    OverlayKey,
    PartOfHost,
    PlannedHost,
    Refusal,
)
from gpuprov.shapes.outcome import Changes, ClusterUp, Plan
from gpuprov.shapes.whole import WholeCluster
from gpuprov.spec.serialize import load_spec_json

if TYPE_CHECKING:
    from gpuprov.core.outcome import Outcome
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.orders import (
        DownOrder,
        KeyOrder,
        LossesOrder,
        MemberPlanOrder,
        MemberUpOrder,
        PartOrder,
        RecordOrder,
        UnreachableOrder,
    )


def serve_part(order: PartOrder, host: Host, reporter: Reporter) -> PartOfHost:
    """This host's part of a cluster, and what it offers to more nodes where a spec is given."""
    name = check_cluster_name(order.cluster)
    if order.engine:
        driver = host.open(order.engine)
    else:
        try:
            driver = engine_of_cluster(name, host.engines, reporter=reporter, creates=True)
        except NoEngine as error:
            return tell_no_engine(error, host=host.name)
    if order.spec == NOTHING:
        part = look_at_part(driver, observe_cluster(driver, name))
        return tell_part(with_disks(part, driver, host) if order.disks else part, host=host.name)
    spec = load_spec_json(text_of(order.spec), cluster=name)
    way = Way(internal_ip=order.internal_ip, ssh_connection=os.environ.get("SSH_CONNECTION", ""))
    return tell_part(look_for_more(driver, spec, host, way, reporter=reporter), host=host.name)


def serve_record(order: RecordOrder, host: Host, _reporter: Reporter) -> ClusterRecord:
    """What this host has recorded of the whole cluster."""
    state = observe_cluster(host.open(order.engine), check_cluster_name(order.cluster))
    return tell_record(state.spec, recorded_whole(state), host=host.name)


def serve_key(order: KeyOrder, host: Host, reporter: Reporter) -> OverlayKey:
    """This host's public key for a cluster's encrypted overlay."""
    name = check_cluster_name(order.cluster)
    with host.lock(reporter):
        return OverlayKey(key=host.overlays.ensure_key(name))


def serve_unreachable(order: UnreachableOrder, host: Host, reporter: Reporter) -> Changes:
    """Have nodes of hosts that are unreachable kept, and those of hosts that are back take work again."""
    driver = engine_of_cluster(check_cluster_name(order.cluster), host.engines, reporter=reporter)
    return Changes(host=host.name, changed=tell_roles(driver, order))


def serve_plan(order: MemberPlanOrder, host: Host, reporter: Reporter) -> Plan | PlannedHost:
    """What `up` would change; of a cluster that spans hosts, also the nodes that this host would have."""
    wanted = _up_order(order, host, reporter)
    driver = host.open(wanted.spec.engine)
    preview = preview_up(driver, wanted, host, reporter=reporter).spare_jobs()
    if preview.choice:
        reporter.node("networks", preview.choice)
    if preview.shared:
        reporter.note(preview.shared)
    planned = Plan(
        host=host.name,
        plan=preview.changes,
        kept=preview.beside,
        older=preview.older,
        unlimited=preview.unlimited or UNSET,
    )
    if wanted.part is None:
        return planned
    facts = driver.facts()
    mine = WholeCluster().with_host(host.name, preview.members, cpus=facts.cpus, memory_bytes=facts.memory_bytes)
    return PlannedHost(
        plan=preview.changes,
        kept=preview.beside,
        older=preview.older,
        unlimited=preview.unlimited,
        whole=mine,
        secret=preview.secret,
    )


def serve_up(order: MemberUpOrder, host: Host, reporter: Reporter) -> ClusterUp:
    """Bring the cluster, or this host's part of it, to what its spec says."""
    wanted = _up_order(order, host, reporter)
    driver = host.open(wanted.spec.engine)
    result = cluster_up(driver, wanted, host, reporter=reporter)
    rows = result.rows(driver, wanted.spec.name)
    return ClusterUp(host=host.name, changed=result.changed, verify=result.report or UNSET, nodes=rows)


def serve_losses(order: LossesOrder, host: Host, reporter: Reporter) -> HostLosses:
    """What `down` would remove and end."""
    name = check_cluster_name(order.cluster)
    driver = engine_of_cluster(name, host.engines, reporter=reporter)
    policy = JobsPolicy(force=order.force, drain_s=order.drain_s, agreed=order.agreed)
    told = foresee_losses(driver, name, host, policy, look_inside=order.look_inside)
    return HostLosses(lines=told.lines, busy=of_object(Refusal, told.busy) if told.busy else None)


def serve_down(order: DownOrder, host: Host, reporter: Reporter) -> Changes:
    """Remove the cluster, or this host's part of it."""
    name = check_cluster_name(order.cluster)

    def down(driver: Driver, host: Host) -> Outcome:
        policy = JobsPolicy(force=order.force, drain_s=order.drain_s, agreed=order.agreed, goes_on=order.goes_on)
        return cluster_down(driver, name, host, reporter=reporter, policy=policy, purge=order.purge)

    def find() -> Driver:
        return engine_of_cluster(name, host.engines, reporter=reporter)

    done = act_on_engine(host, find, down)
    left = host.overlays.remove(name)  # by a run that was killed before it recorded anything
    return Changes(host=host.name, changed=(*done.changed, *left))


def _up_order(order: MemberUpOrder, host: Host, reporter: Reporter) -> UpOrder:
    if order.record:
        spec, whole = _recorded(order, host, reporter)
    else:
        spec, whole = load_spec_json(text_of(order.spec), cluster=check_cluster_name(order.cluster)), order.whole
    part = None
    if whole:
        part = ClusterPart(
            spec=spec, host=host.name, nodes=order.nodes, whole=whole, secret=order.secret, sssd=order.sssd
        )
    return UpOrder(
        spec=part.local_spec if part else spec,
        part=part,
        left=frozenset(order.left),
        keep_on_failure=order.keep_on_failure,
        verify=order.verify,
        prune=order.prune,
        policy=JobsPolicy(force=order.force, drain_s=order.drain_s),
    )


def _recorded(order: MemberUpOrder, host: Host, reporter: Reporter) -> tuple[ClusterSpec, WholeCluster | None]:
    """What is recorded here, which is what is asked for."""
    driver = engine_of_cluster(check_cluster_name(order.cluster), host.engines, reporter=reporter)
    state = observe_cluster(driver, order.cluster)
    whole = recorded_whole(state)
    if state.spec is None or fingerprint_of(state.spec, whole) != order.record:
        raise UsageError(
            f"cluster {order.cluster} has been changed from another machine",
            evidence=f"{host.name} has recorded another state meanwhile",
            fix=f"{AGAIN}; what there is now: gpuprov cluster status {order.cluster}",
        )
    return state.spec, whole
