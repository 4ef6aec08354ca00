"""Agree with all hosts of a cluster on what each is to do; changes nothing.

Every host is asked what it has and offers; the new nodes are placed; every host plans its part, which tells the nodes
of all hosts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.placement import place_nodes
from gpuprov.cluster.shrinking import Shrinking, lost_folder, lost_people
from gpuprov.cluster.slices import slice_cluster
from gpuprov.core.errors import Unreachable, UsageError
from gpuprov.fleet.find_hosted import look_at_spanning, machine_of, refuse_doubles
from gpuprov.fleet.hosts_leaving import find_leaving
from gpuprov.fleet.member.told_part import fingerprint_of
from gpuprov.fleet.planned_part import PlannedPart, read_planned_part
from gpuprov.fleet.settle import settle_spanning
from gpuprov.fleet.share import prove_new_share, prove_share
from gpuprov.fleet.site_file import read_for_hosts
from gpuprov.fleet.tunnel_keys import with_tunnels
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import part_error, read_each
from gpuprov.roles.crew import Crew
from gpuprov.roles.registry import ROLES, check_spec, role_of
from gpuprov.shapes.base import changed, raw
from gpuprov.shapes.cluster_spec import PlacementSpec
from gpuprov.shapes.members import NOTHING
from gpuprov.shapes.orders import MemberPlanOrder, MemberUpOrder, PartOrder
from gpuprov.spec.addressing import node_name
from gpuprov.spec.draft import SHARE
from gpuprov.spec.serialize import dump_spec
from gpuprov.spec.shared_folder import folder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.fleet.hosts_leaving import LeavingHosts
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import Hosts
    from gpuprov.shapes.cluster_spec import ClusterSpec, HostSpec
    from gpuprov.shapes.whole import Member, WholeCluster
    from gpuprov.spec.draft import Draft

_NOTHING: Final = "nothing was changed: a new cluster needs all its hosts"


@dataclass(frozen=True, kw_only=True)
class HostsUpOrder:
    """What is asked for.

    Attributes:
        draft: The spec, which names hosts, with what was left open in it.
        known: The hosts that `host add` has remembered.
        policy: What becomes of jobs on nodes that have to leave.
        found: The cluster as it was found a moment ago: who was unreachable then is not waited for again.
        confirm: Is asked before nodes or the folder go, and raises where they are not to; None where nobody is.
    """

    draft: Draft
    known: Mapping[str, RemoteMachine]
    policy: JobsPolicy
    keep_on_failure: bool = False
    verify: bool = False
    prune: bool = False
    found: SpanningCluster | None = None
    confirm: Callable[[Shrinking], None] | None = None

    @property
    def machines(self) -> dict[str, RemoteMachine]:
        """The way to each host of the spec."""
        return {host.name: machine_of(host, self.known) for host in self.draft.spec.hosts}


@dataclass(frozen=True, kw_only=True)
class Agreed:
    """What the hosts that answer have agreed on.

    Attributes:
        whole: The nodes of all hosts as they are to be.
        before: As they are now.
        leaving: Hosts that the spec does not name any more.
        nodes: By host, those of the spec's nodes that it is to have.
        lines: By host, what it would change.
        kept: By host, its nodes that stay though the spec does not have them.
        older: By host, its nodes with an older image, and what it lacks.
        unlimited: By host, its nodes that stay without limits of processes and memory.
        secret: What the nodes share now; empty where there is none.
        sssd: The site's sssd.conf that the spec names; empty for none.
    """

    seen: SpanningCluster
    spec: ClusterSpec
    whole: WholeCluster
    before: WholeCluster
    leaving: LeavingHosts
    nodes: Mapping[str, tuple[str, ...]]
    lines: Mapping[str, tuple[str, ...]]
    secret: bytes = field(repr=False)
    sssd: str = field(default="", repr=False)
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    older: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unlimited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def gone(self) -> tuple[Member, ...]:
        """The nodes that are removed, those too that are made again on another host; not what is gone already."""
        staying, parts = self.whole.homes, self.seen.parts
        there = {row.name for part in parts.values() for row in part.rows}
        members = [one for one in self.before.members if one.host not in parts or one.name in there]
        return tuple(one for one in members if one.name not in staying or one.host in self.leaving.nodes)

    @property
    def shrinking(self) -> Shrinking:
        """What is lost."""
        shared = folder_of(self.seen.spec) if self.seen.spec else ""
        people = lost_people(self.seen.spec, self.spec)
        return Shrinking(
            nodes=tuple(one.name for one in self.gone), folder=lost_folder(shared, self.spec), people=people
        )

    @property
    def changes(self) -> bool:
        """Whether any host has anything to do."""
        record = fingerprint_of(self.spec, self.whole)
        same = all(part.record == record for part in self.seen.parts.values())
        return not same or any(self.lines.values())


def agree_with_hosts(order: HostsUpOrder, hosts: Hosts, reporter: Reporter) -> Agreed:
    """Ask all hosts, place the new nodes, and have every host plan its part; changes nothing."""
    with reporter.phase("look"):
        seen = _look(order, hosts)
        for error in seen.failed.values():
            reporter.warn(f"{error.what}: {error.evidence}")
    with reporter.phase("plan"):
        spec = settle_spanning(order.draft, seen)
        check_spec(spec)
        sssd = read_for_hosts(spec)
        before, leaving = seen.whole, find_leaving(spec, seen, order.known, hosts, reporter=reporter)
        seen = replace(seen, whole=leaving.without(before))
        proven = prove_new_share(spec, seen, hosts, reporter, said=SHARE not in order.draft.left)
        names = [node_name(spec.nodes.prefix, number) for number in range(spec.nodes.count)]
        offers = [part.offer for host in spec.hosts if (part := seen.parts.get(host.name)) and part.offer]
        refuse_doubles(seen)
        placed = place_nodes(spec, names, offers, away=seen.whole.homes)
        nodes = {part.host: part.nodes for part in slice_cluster(spec, placed)}
        begun = Agreed(
            seen=seen,
            spec=spec,
            whole=with_tunnels(spec, seen),
            before=before,
            leaving=leaving,
            nodes=nodes,
            lines={},
            secret=b"",
            sssd=sssd,
        )
        planned = look_and_plan_parts(order, spec, begun, hosts)
        whole = begun.whole.with_hosts({host: one.mine for host, one in planned.items()}).changed_from(before)
        # A changed spec counts as well, else nobody could tell which host has the newest one
        whole = changed(whole, serial=max(whole.serial, before.serial + (spec != seen.spec)))
        ROLES.refuse_crew(Crew(spec=spec, members=whole.reachable_members()))
        controller = role_of(spec.nodes.role).controller_name(spec)
        first = whole.homes.get(controller or "", "")
        secrets = sorted(planned, key=lambda host: host != first)
        secret = next((planned[host].secret for host in secrets if planned[host].secret), b"")
        lines = {**leaving.lines, **{host: one.lines for host, one in planned.items()}}
        kept, older, unlimited = (
            {host: getattr(one, key) for host, one in planned.items()} for key in ("kept", "older", "unlimited")
        )
        agreed = replace(begun, whole=whole, lines=lines, secret=secret, kept=kept, older=older, unlimited=unlimited)
        if spec.share and agreed.changes and not proven:
            prove_share(spec, seen, hosts)
        return agreed


def _look(order: HostsUpOrder, hosts: Hosts) -> SpanningCluster:
    """What each host has of the cluster, and offers.

    Raises:
        GpuprovError: No host answers, or not all do and there is no such cluster yet.
    """
    spec = order.draft.spec

    def question(host: HostSpec) -> PartOrder:
        engine = host.engine or ("" if order.draft.engine_open else spec.engine)
        mine = raw(dump_spec(changed(spec, hosts=(host,), placement=PlacementSpec())))  # to all, all would be too much
        return PartOrder(cluster=spec.name, spec=mine, engine=engine, internal_ip=host.internal_ip or "")

    orders = {host.name: question(host) for host in spec.hosts}
    seen = look_at_spanning(spec.name, order.machines, orders, hosts, order.found)
    error = part_error(seen.failed, of=len(spec.hosts), what=_NOTHING, undone=True)
    if error and not (seen.spec and seen.parts):
        raise error
    for host, part in seen.parts.items():
        alone = part.spec is not None and not part.spec.hosts
        if alone or (part.exists and part.known_as not in ("", host)):
            raise UsageError(
                f"{host} has another cluster {spec.name}",
                evidence=f"there it is {f'part of one as {part.known_as}' if part.known_as else 'on that host alone'}",
                fix=f"use another name: --name NAME; about that cluster, on {host}: gpuprov cluster status {spec.name}",
            )
    return seen


def look_and_plan_parts(order: HostsUpOrder, spec: ClusterSpec, agreed: Agreed, hosts: Hosts) -> dict[str, PlannedPart]:
    """What each host that answers would change for its part.

    Raises:
        GpuprovError: A host refuses, or does not answer any more; nothing was changed.
    """
    seen = agreed.seen
    if order.policy.drain_s is not None:  # they are waited for when the hosts do their part
        order = replace(order, policy=replace(order.policy, force=True))
    requests = requests_of_parts(MemberPlanOrder, order, spec, agreed)
    homes = dict(seen.whole.homes)
    homes |= {node: host for host, nodes in agreed.nodes.items() for node in nodes}

    planned, refused = read_each(hosts.ask(requests), partial(read_planned_part, homes=homes))
    lost = all(isinstance(error, Unreachable) for error in refused.values())
    what = f"nothing was changed: hosts {'did not plan' if lost else 'refuse'} their part"
    error = part_error(refused, of=len(requests), what=what, undone=True)
    if error:
        raise error
    return planned


def requests_of_parts(
    kind: type[MemberUpOrder], order: HostsUpOrder, spec: ClusterSpec, agreed: Agreed, secret: bytes = b""
) -> dict[RemoteMachine, MemberRequest]:
    """What each host that answers is asked to `plan`, or to do (`up`): the same, but for its nodes.

    What a host has recorded just so is not sent to it: to all hosts, that would grow with the square of their number.
    """
    policy, seen = order.policy, agreed.seen
    asked = kind(
        cluster=spec.name,
        spec=raw(dump_spec(spec)),
        whole=agreed.whole,
        secret=secret,
        sssd=agreed.sssd,
        keep_on_failure=order.keep_on_failure,
        prune=order.prune,
        force=policy.force,
        drain_s=policy.drain_s,
    )
    record = fingerprint_of(spec, agreed.whole)
    brief = changed(asked, spec=NOTHING, whole=None, record=record)

    def ask(host: str) -> MemberRequest:
        fitting = brief if seen.parts[host].record == record else asked
        return MemberRequest(order=changed(fitting, nodes=agreed.nodes[host]))

    return {seen.machines[host]: ask(host) for host in seen.parts}
