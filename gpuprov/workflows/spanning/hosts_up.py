"""`cluster up` and `cluster plan` of a cluster that spans hosts: agree with all hosts, then have each do its part.

Every host is asked what it has and offers; the new nodes are placed; every host plans its part, which tells the nodes
of all hosts; every host does its part, each under its own lock; and the host of the node that gives work waits until
all nodes take some. A host that does not answer keeps its nodes, and the others go on.
"""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from gpuprov.cluster.placement import place_nodes
from gpuprov.cluster.slices import slice_cluster
from gpuprov.cluster.whole import WholeCluster, dump_whole
from gpuprov.core.errors import GpuprovError, TimedOut, UsageError
from gpuprov.core.outcome import Outcome
from gpuprov.documents.host_part import read_host_part
from gpuprov.documents.member_answers import read_rows
from gpuprov.host.remote.ask import MemberRequest
from gpuprov.host.remote.several import read_each, told_by
from gpuprov.planes.base import Crew
from gpuprov.planes.registry import PLANES, check_spec, plane_of
from gpuprov.spec.addressing import node_name
from gpuprov.spec.overlay import unencrypted_warning
from gpuprov.spec.serialize import dump_spec
from gpuprov.workflows.serving.member import MemberUpOrder, PartOrder
from gpuprov.workflows.serving.member_ready import ReadyOrder
from gpuprov.workflows.spanning.absent_hosts import tell_absence
from gpuprov.workflows.spanning.hold_there import HoldThere
from gpuprov.workflows.spanning.hosts_leaving import find_leaving, remove_leaving
from gpuprov.workflows.spanning.over_hosts import lines_of, look_at_spanning, machine_of, part_error, with_word
from gpuprov.workflows.spanning.planned_part import PlannedPart, read_planned_part
from gpuprov.workflows.spanning.settle import settle_spanning
from gpuprov.workflows.spanning.share_over_hosts import prove_new_share, prove_share
from gpuprov.workflows.spanning.tunnel_keys import exchange_keys, with_tunnels
from gpuprov.workflows.spanning.verify_hosts import verify_over_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.host.remote.hosts import Hosts
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.planes.leaving import JobsPolicy
    from gpuprov.planes.rows import NodeRow
    from gpuprov.spec.draft import Draft
    from gpuprov.spec.models import ClusterSpec, HostSpec
    from gpuprov.verify.models import Report
    from gpuprov.workflows.spanning.hosts_leaving import LeavingHosts
    from gpuprov.workflows.spanning.over_hosts import SpanningCluster

_NOTHING: Final = "nothing was changed: a new cluster needs all its hosts"


@dataclass(frozen=True, kw_only=True)
class HostsUpOrder:
    """What is asked for.

    Attributes:
        draft: The spec, which names hosts, with what was left open in it.
        known: The hosts that `host add` has remembered.
        policy: What becomes of jobs on nodes that have to leave.
    """

    draft: Draft
    known: Mapping[str, RemoteMachine]
    policy: JobsPolicy
    keep_on_failure: bool = False
    verify: bool = False
    prune: bool = False

    @property
    def machines(self) -> dict[str, RemoteMachine]:
        """The way to each host of the spec."""
        return {host.name: machine_of(host, self.known) for host in self.draft.spec.hosts}


@dataclass(frozen=True, kw_only=True)
class HostsUp:
    """What was done.

    Attributes:
        spec: With all that was left open filled in.
        rows: The nodes of all hosts.
        failed: Hosts that did not do their part, and why.
        away: Since when hosts are unreachable.
        report: What `verify` says; None where it was not asked, or nothing was changed.
    """

    outcome: Outcome
    spec: ClusterSpec
    rows: tuple[NodeRow, ...]
    failed: Mapping[str, GpuprovError]
    away: Mapping[str, str]
    report: Report | None = None

    @property
    def passed(self) -> bool:
        """Whether `verify` found nothing wrong."""
        return self.report is None or self.report.passed

    @property
    def error(self) -> GpuprovError | None:
        """That of the hosts that did not do their part."""
        error = part_error(self.failed, of=len(self.spec.hosts), what="hosts did not do their part")
        if error is None:
            return None
        return type(error)(error.what, evidence=error.evidence, fix=f"run the same command again; before: {error.fix}")


@dataclass(frozen=True, kw_only=True)
class HostsPlan:
    """What would be done: one line for each change, with its host."""

    lines: tuple[str, ...]
    failed: Mapping[str, GpuprovError]
    spec: ClusterSpec

    @property
    def error(self) -> GpuprovError | None:
        """That of the hosts that did not answer."""
        return part_error(self.failed, of=len(self.spec.hosts))


@dataclass(frozen=True, kw_only=True)
class _Agreed:
    """What the hosts that answer have agreed on.

    Attributes:
        whole: The nodes of all hosts as they are to be.
        before: As they are now.
        leaving: Hosts that the spec does not name any more.
        nodes: By host, those of the spec's nodes that it is to have.
        lines: By host, what it would change.
        secret: What the nodes share now; empty where there is none.
    """

    seen: SpanningCluster
    spec: ClusterSpec
    whole: WholeCluster
    before: WholeCluster
    leaving: LeavingHosts
    nodes: Mapping[str, tuple[str, ...]]
    lines: Mapping[str, tuple[str, ...]]
    secret: bytes = field(repr=False)

    @property
    def changes(self) -> bool:
        """Whether any host has anything to do."""
        same = all(part.spec == self.spec and part.whole == self.whole for part in self.seen.parts.values())
        return not same or any(self.lines.values())


def up_over_hosts(order: HostsUpOrder, hosts: Hosts, *, reporter: Reporter) -> HostsUp:
    """Bring a cluster that spans hosts to what its spec says, and prove its nodes.

    Raises:
        GpuprovError: Something was refused before anything was changed; the hosts together have too little room, say.
    """
    agreed = _agree(order, hosts, reporter)
    seen, spec = agreed.seen, agreed.spec
    if not agreed.changes:
        told = Outcome(changed=tell_absence(seen, hosts, reporter=reporter))
        return HostsUp(outcome=told, spec=spec, rows=seen.rows, failed=seen.failed, away=seen.away)
    warning = unencrypted_warning(spec)
    if warning:
        reporter.warn(warning)
    keyed = exchange_keys(agreed.whole, seen, hosts)
    agreed = replace(agreed, whole=keyed.changed_from(agreed.whole))
    secret = agreed.secret or plane_of(spec.nodes.role).new_secret()
    with reporter.phase("hosts"):
        done = _work_without_jobs(order, agreed, hosts, secret, reporter)
    with reporter.phase("ready"):
        ready = _wait_ready(agreed, done, hosts, reporter)
        done.changed += tell_absence(seen, hosts, reporter=reporter)
    report = None
    if order.verify and done.changed and any(done.rows.values()):
        with reporter.phase("verify"):
            report = _verify(agreed, done, hosts)
    rows = [with_word(row, ready) for found in done.rows.values() for row in found]
    away = [row for row in seen.rows if row.host not in seen.parts]
    rows += [row for row in away if row.name in agreed.whole.homes]
    return HostsUp(
        outcome=Outcome(changed=tuple(done.changed)),
        spec=spec,
        rows=tuple(sorted(rows, key=lambda row: row.name)),
        failed=done.failed,
        away=seen.away,
        report=report,
    )


def plan_over_hosts(order: HostsUpOrder, hosts: Hosts, *, reporter: Reporter) -> HostsPlan:
    """What `up_over_hosts` would change; raises what it would refuse, and changes nothing."""
    agreed = _agree(order, hosts, reporter)
    lines = agreed.lines
    if agreed.changes:  # now that the nodes of all hosts are known, each host can tell what its files lack
        again = {host: planned.lines for host, planned in _plan(order, agreed.spec, agreed, hosts).items()}
        lines = {**agreed.leaving.lines, **again}
    told = tuple(f"{host}: {line}" for host, found in lines.items() for line in found)
    return HostsPlan(lines=told, failed=agreed.seen.failed, spec=agreed.spec)


def _agree(order: HostsUpOrder, hosts: Hosts, reporter: Reporter) -> _Agreed:
    """Ask all hosts, place the new nodes, and have every host plan its part; changes nothing."""
    with reporter.phase("look"):
        seen = _look(order, hosts)
        for error in seen.failed.values():
            reporter.warn(f"{error.what}: {error.evidence}")
    with reporter.phase("plan"):
        spec = settle_spanning(order.draft, seen)
        check_spec(spec)
        before, leaving = seen.whole, find_leaving(spec, seen, order.known, hosts, reporter=reporter)
        seen = replace(seen, whole=leaving.without(before))
        proven = prove_new_share(spec, seen, hosts, reporter)
        names = [node_name(spec.nodes.prefix, number) for number in range(spec.nodes.count)]
        offers = [part.offer for host in spec.hosts if (part := seen.parts.get(host.name)) and part.offer]
        placed = place_nodes(spec, names, offers, away=seen.whole.homes)
        nodes = {part.host: part.nodes for part in slice_cluster(spec, placed)}
        begun = _Agreed(
            seen=seen,
            spec=spec,
            whole=with_tunnels(spec, seen),
            before=before,
            leaving=leaving,
            nodes=nodes,
            lines={},
            secret=b"",
        )
        planned = _plan(order, spec, begun, hosts)
        whole = begun.whole
        for host, one in planned.items():
            mine = one.mine
            known = mine[0] if mine else None
            whole = whole.with_host(
                host, mine, cpus=known.cpus if known else 0, memory_bytes=known.memory_bytes if known else 0
            )
        whole = whole.changed_from(before)
        # A changed spec counts as well, else nobody could tell which host has the newest one
        whole = replace(whole, serial=max(whole.serial, before.serial + (spec != seen.spec)))
        crew = Crew(spec=spec, members=whole.reachable_members())
        for plane in PLANES.values():
            plane.refuse_crew(crew)
        head = plane_of(spec.nodes.role).head_name(spec)
        first = whole.homes.get(head or "", "")
        secrets = sorted(planned, key=lambda host: host != first)
        secret = next((planned[host].secret for host in secrets if planned[host].secret), b"")
        lines = {**leaving.lines, **{host: one.lines for host, one in planned.items()}}
        agreed = replace(begun, whole=whole, lines=lines, secret=secret)
        if spec.share and agreed.changes and not proven:
            prove_share(spec, seen, hosts)
        return agreed


def _look(order: HostsUpOrder, hosts: Hosts) -> SpanningCluster:
    """What each host has of the cluster, and offers.

    Raises:
        GpuprovError: No host answers, or not all do and there is no such cluster yet.
    """
    spec = order.draft.spec
    text = dump_spec(spec)

    def question(host: HostSpec) -> PartOrder:
        engine = host.engine or ("" if order.draft.engine_open else spec.engine)
        return PartOrder(cluster=spec.name, spec=text, engine=engine, internal_ip=host.internal_ip or "")

    orders = {host.name: question(host) for host in spec.hosts}
    seen = look_at_spanning(spec.name, order.machines, orders, hosts)
    error = part_error(seen.failed, of=len(spec.hosts), what=_NOTHING, undone=True)
    if error and not (seen.spec and seen.parts):
        raise error
    for host, part in seen.parts.items():
        alone = part.spec is not None and not part.spec.hosts
        if alone or (part.exists and part.known_as not in ("", host)):
            raise UsageError(
                f"{host} has another cluster {spec.name}",
                evidence=f"there it is {f'part of one as {part.known_as}' if part.known_as else 'on that host alone'}",
                fix=f"use another name: --name NAME; or remove it, on {host}: gpuprov cluster down {spec.name}",
            )
    return seen


def _plan(order: HostsUpOrder, spec: ClusterSpec, agreed: _Agreed, hosts: Hosts) -> dict[str, PlannedPart]:
    """What each host that answers would change for its part.

    Raises:
        GpuprovError: A host refuses, or does not answer any more; nothing was changed.
    """
    seen = agreed.seen
    if order.policy.drain_s is not None:  # they are waited for when the hosts do their part
        order = replace(order, policy=replace(order.policy, force=True))
    requests = {
        seen.machines[host]: MemberRequest(verb="plan", document=asdict(_order_of(order, spec, agreed, host)))
        for host in seen.parts
    }
    homes = dict(seen.whole.homes)
    homes |= {node: host for host, nodes in agreed.nodes.items() for node in nodes}

    def read(told: Mapping[str, Any], host: str) -> PlannedPart:
        return read_planned_part(told, host, {node: home for node, home in homes.items() if home != host})

    planned, refused = read_each(hosts.ask(requests), read)
    error = part_error(refused, of=len(requests), what="nothing was changed: hosts refuse their part", undone=True)
    if error:
        raise error
    return planned


def _order_of(order: HostsUpOrder, spec: ClusterSpec, agreed: _Agreed, host: str, secret: bytes = b"") -> MemberUpOrder:
    policy = order.policy
    return MemberUpOrder(
        cluster=spec.name,
        spec=dump_spec(spec),
        left=[],
        nodes=list(agreed.nodes[host]),
        whole=dump_whole(agreed.whole),
        secret=base64.b64encode(secret).decode(),
        keep_on_failure=order.keep_on_failure,
        prune=order.prune,
        force=policy.force,
        drain_s=policy.drain_s if policy.drain_s is not None else -1.0,
    )


@dataclass(kw_only=True)
class _Done:
    """What hosts have done."""

    changed: list[str] = field(default_factory=list)
    rows: dict[str, tuple[NodeRow, ...]] = field(default_factory=dict)
    failed: dict[str, GpuprovError] = field(default_factory=dict)


def _work(order: HostsUpOrder, agreed: _Agreed, hosts: Hosts, secret: bytes) -> _Done:
    """Every host does its part, all side by side; one that fails undoes its own part, and the others go on."""
    seen = agreed.seen
    requests = {
        seen.machines[host]: MemberRequest(
            verb="up", document=asdict(_order_of(order, agreed.spec, agreed, host, secret))
        )
        for host in seen.parts
    }
    told, failed = read_each(hosts.work(requests), lambda told, host: (lines_of(told, host), read_rows(told, host)))
    return _Done(
        changed=[line for lines, _ in told.values() for line in lines],
        rows={host: rows for host, (_, rows) in told.items()},
        failed={**seen.failed, **failed},
    )


def _work_without_jobs(order: HostsUpOrder, agreed: _Agreed, hosts: Hosts, secret: bytes, reporter: Reporter) -> _Done:
    """The same, with no job on nodes that leave a host without the node that gives work; hosts that leave are first."""
    there, policy, leaving = HoldThere(agreed.seen, hosts, reporter), order.policy, agreed.leaving
    gone = [one for one in agreed.before.members if one.name not in agreed.whole.homes or one.host in leaving.nodes]
    reached = {*agreed.seen.parts, *leaving.machines} - {there.home}
    names = [one.name for one in gone if one.host in reached and plane_of(one.role).has_services]
    held = bool(names) and there.take(names, policy, lost=True)
    done = None
    try:
        policy = replace(policy, force=True, drain_s=None) if held else policy
        removed = remove_leaving(leaving, agreed.spec.name, policy, hosts)
        done = _work(order, agreed, hosts, secret)
        done.changed[:0] = removed
        return done
    finally:
        failed = {*agreed.seen.parts, *leaving.machines} if done is None else set(done.failed)
        if held and failed:
            there.release(running=[one.name for one in gone if one.name in names and one.host in failed])


def _wait_ready(agreed: _Agreed, done: _Done, hosts: Hosts, reporter: Reporter) -> Mapping[str, str]:
    """Wait until the nodes of the hosts that did their part take work; returns their plane's words.

    Where that host does not answer any more, this is noted as its failure: what the others did is told.

    Raises:
        TimedOut: With each node's last state.
    """
    spec, whole = agreed.spec, agreed.whole
    plane = plane_of(spec.nodes.role)
    names = [member.name for member in whole.members if member.host in done.rows]
    if not plane.has_services or not names:
        return {}
    heads = plane.head_names(spec) or names[:1]
    running = {row.name for rows in done.rows.values() for row in rows if row.status == "running"}
    head = next((one for one in heads if one in running), heads[0])
    home = whole.homes.get(head, "")
    if home in done.rows and head != heads[0]:
        reporter.warn(f"{heads[0]} with the {plane.title} service is away: {head} on {home} has its place")
    if home not in done.rows:
        reporter.warn(
            f"no node of cluster {spec.name} takes new jobs: {head} with the {plane.title} service is on {home}, "
            "which did not do its part; what runs on the other nodes goes on"
        )
        return {}
    request = MemberRequest(verb="ready", document=asdict(ReadyOrder(cluster=spec.name, nodes=names)))
    (answer,) = hosts.work({agreed.seen.machines[home]: request})
    try:
        told = dict(told_by(answer))
        lines = lines_of(told, home)
        told.pop("changed")
        words = read_host_part(told, host=home, cluster=spec.name).words
    except TimedOut:
        raise
    except GpuprovError as error:
        done.failed[home] = error
        return {}
    done.changed += lines
    return words


def _verify(agreed: _Agreed, done: _Done, hosts: Hosts) -> Report:
    """What the hosts that did their part say of their nodes; one that does not is noted as failed."""
    parts = {host: replace(agreed.seen.parts[host], rows=rows) for host, rows in done.rows.items()}
    seen = replace(agreed.seen, parts=parts, whole=agreed.whole)
    verified = verify_over_hosts(seen, hosts)
    done.failed |= verified.failed
    return verified.report
