"""What a controller asks of a host about one cluster: its part there, plan, up, down, status and verify."""

from __future__ import annotations

import base64
import os
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from gpuprov.cluster.between_hosts import look_between
from gpuprov.cluster.find_engine import engine_of_cluster
from gpuprov.cluster.part import ClusterPart
from gpuprov.cluster.retry_after_wait import act_on_engine
from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.whole import WholeCluster, dump_whole, parse_whole
from gpuprov.core.errors import NoEngine
from gpuprov.core.names import check_cluster_name
from gpuprov.documents.host_part import tell_no_engine, tell_part
from gpuprov.planes.across.leaving import JobsPolicy
from gpuprov.planes.across.rows import state_rows
from gpuprov.planes.over_hosts.absence import AbsenceOrder, tell_planes
from gpuprov.planes.over_hosts.host_part import Way, look_at_part, look_for_more
from gpuprov.serving.request_bytes import bytes_of
from gpuprov.shapes.base import changed, write
from gpuprov.shapes.members import OverlayKey, PartOfHost, PlannedHost
from gpuprov.shapes.nodes import ClusterStatus
from gpuprov.shapes.outcome import Changes, ClusterUp, Plan
from gpuprov.shapes.verify import Between
from gpuprov.spec.serialize import load_spec_json
from gpuprov.verify.request import Work
from gpuprov.workflows.cluster_down import cluster_down
from gpuprov.workflows.cluster_up import UpOrder, cluster_up, preview_up
from gpuprov.workflows.verify import verify_cluster

if TYPE_CHECKING:
    from gpuprov.core.outcome import Outcome
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host


@dataclass(frozen=True, kw_only=True)
class StatusOrder:
    """`status`: the nodes of one cluster."""

    cluster: str


@dataclass(frozen=True, kw_only=True)
class PartOrder:
    """`part`: a host's part of a cluster that spans hosts.

    Attributes:
        spec: What is asked for, where the host is to say what it offers to more nodes; empty where not.
        engine: Which is to have it; empty for the one that has it, or else the default one.
        internal_ip: The host's address on the network between the hosts, where the spec says it.
    """

    cluster: str
    spec: str = ""
    engine: str = ""
    internal_ip: str = ""


@dataclass(frozen=True, kw_only=True)
class KeyOrder:
    """`key`: the host's public key for a cluster's encrypted overlay; it is made if there is none."""

    cluster: str


@dataclass(frozen=True, kw_only=True)
class MemberUpOrder:
    """`plan` and `up`.

    Attributes:
        cluster: The name in the spec.
        spec: What is asked of this host, as `dump_spec` writes it; of a cluster that spans hosts, the whole one.
        left: Paths of values that nobody has said.
        nodes: Of a cluster that spans hosts, those of the spec's nodes that this host is to have.
        whole: Of a cluster that spans hosts, the nodes of all hosts as `dump_whole` writes them; empty of others.
        secret: Of a cluster that spans hosts, what all its nodes share, in base64; empty where nothing or to be read.
        drain_s: How long jobs on nodes that have to leave are waited for; below 0 not at all.
    """

    cluster: str
    spec: str
    left: list[str]
    nodes: list[str] = field(default_factory=list)
    whole: str = ""
    secret: str = field(default="", repr=False)
    keep_on_failure: bool = False
    verify: bool = False
    prune: bool = False
    force: bool = False
    drain_s: float = -1.0


@dataclass(frozen=True, kw_only=True)
class DownOrder:
    """`down`.

    Attributes:
        agreed: Whether the host that knows the jobs of all nodes has agreed.
        goes_on: Whether the cluster does, on other hosts.
    """

    cluster: str
    purge: bool = False
    force: bool = False
    drain_s: float = -1.0
    agreed: bool = False
    goes_on: bool = False


@dataclass(frozen=True, kw_only=True)
class VerifyOrder:
    """`verify`.

    Attributes:
        nodes: Names of those to check; none for all.
        seconds: How long each kernel is kept busy; 0 for the usual time.
        beside: Running nodes on other hosts, which each of these tries to reach.
        away: Hosts that are known not to answer.
    """

    cluster: str
    nodes: list[str]
    level: str = "quick"
    seconds: float = 0.0
    beside: list[str] = field(default_factory=list)
    away: list[str] = field(default_factory=list)


def serve_status(order: StatusOrder, host: Host, reporter: Reporter) -> ClusterStatus:
    """The nodes of a cluster, with what each takes of work."""
    driver = engine_of_cluster(check_cluster_name(order.cluster), host.engines, reporter=reporter)
    state = observe_cluster(driver, order.cluster)
    return ClusterStatus(
        host=host.name,
        cluster=order.cluster,
        shared_folder=state.shared_folder or None,
        nodes=state_rows(driver, state),
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
    if not order.spec:
        return tell_part(look_at_part(driver, name), host=host.name)
    spec = load_spec_json(order.spec, cluster=name)
    way = Way(internal_ip=order.internal_ip, ssh_connection=os.environ.get("SSH_CONNECTION", ""))
    return tell_part(look_for_more(driver, spec, host, way, reporter=reporter), host=host.name)


def serve_key(order: KeyOrder, host: Host, reporter: Reporter) -> OverlayKey:
    """This host's public key for a cluster's encrypted overlay."""
    name = check_cluster_name(order.cluster)
    with host.lock(reporter):
        return OverlayKey(key=host.overlays.ensure_key(name))


def serve_absence(order: AbsenceOrder, host: Host, reporter: Reporter) -> Changes:
    """Have nodes of hosts that are away kept, and those of hosts that are back take work again."""
    driver = engine_of_cluster(check_cluster_name(order.cluster), host.engines, reporter=reporter)
    return Changes(host=host.name, changed=tell_planes(driver, order))


def serve_plan(order: MemberUpOrder, host: Host, reporter: Reporter) -> Plan | PlannedHost:
    """What `up` would change; of a cluster that spans hosts, also the nodes that this host would have."""
    wanted = _up_order(order, host)
    driver = host.open(wanted.spec.engine)
    preview = preview_up(driver, wanted, host, reporter=reporter)
    for line in filter(None, (preview.choice, preview.shared)):
        reporter.note(line)
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
        older=preview.older,
        unlimited=preview.unlimited,
        whole=dump_whole(mine),
        secret=base64.b64encode(preview.secret).decode(),
    )


def serve_up(order: MemberUpOrder, host: Host, reporter: Reporter) -> ClusterUp:
    """Bring the cluster, or this host's part of it, to what its spec says."""
    wanted = _up_order(order, host)
    driver = host.open(wanted.spec.engine)
    result = cluster_up(driver, wanted, host, reporter=reporter)
    rows = result.rows(driver, wanted.spec.name)
    return ClusterUp(host=host.name, changed=result.changed, verify=result.report or UNSET, nodes=rows)


def serve_down(order: DownOrder, host: Host, reporter: Reporter) -> Changes:
    """Remove the cluster, or this host's part of it."""
    name = check_cluster_name(order.cluster)

    def down(driver: Driver, host: Host) -> Outcome:
        policy = replace(_policy(order), agreed=order.agreed, goes_on=order.goes_on)
        return cluster_down(driver, name, host, reporter=reporter, policy=policy, purge=order.purge)

    def find() -> Driver:
        return engine_of_cluster(name, host.engines, reporter=reporter)

    done = act_on_engine(host, find, down)
    left = host.overlays.remove(name)  # by a run that was killed before it recorded anything
    return Changes(host=host.name, changed=(*done.changed, *left))


def serve_verify(order: VerifyOrder, host: Host, reporter: Reporter) -> dict[str, Any]:
    """Prove the nodes, and look at this host's end of the overlay where there is one."""
    began_s = time.time()
    driver = engine_of_cluster(check_cluster_name(order.cluster), host.engines, reporter=reporter)
    work = Work(
        level="full" if order.level == "full" else "quick", seconds=order.seconds or None, beside=tuple(order.beside)
    )
    between = look_between(driver, observe_cluster(driver, order.cluster), host, away=order.away)
    nodes = order.nodes or None
    report = verify_cluster(driver, order.cluster, host=host, nodes=nodes, reporter=reporter, work=work)
    if between is None:
        return write(report)
    whole = Between(driver=between["driver"], overlay=between["overlay"], began_s=began_s, ended_s=time.time())
    return write(changed(report, between=whole))


def _up_order(order: MemberUpOrder, host: Host) -> UpOrder:
    spec = load_spec_json(order.spec, cluster=check_cluster_name(order.cluster))
    part = None
    if order.whole:
        whole = parse_whole(order.whole, source="the request")
        secret = bytes_of(order.secret, "secret")
        part = ClusterPart(spec=spec, host=host.name, nodes=tuple(order.nodes), whole=whole, secret=secret)
    return UpOrder(
        spec=part.local_spec if part else spec,
        part=part,
        left=frozenset(order.left),
        keep_on_failure=order.keep_on_failure,
        verify=order.verify,
        prune=order.prune,
        policy=_policy(order),
    )


def _policy(order: MemberUpOrder | DownOrder) -> JobsPolicy:
    return JobsPolicy(force=order.force, drain_s=order.drain_s if order.drain_s >= 0 else None)
