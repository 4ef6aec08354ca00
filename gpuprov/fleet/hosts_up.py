"""Bring up or plan a cluster that spans hosts: agree with all hosts, then have each do its part.

Every host is asked what it has and offers; the new nodes are placed; every host plans its part, which tells the nodes
of all hosts; every host does its part, each under its own lock; and the host of the node that gives work waits until
all nodes take some. A host that does not answer keeps its nodes, and the others go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.lost_nodes import lost_nodes_line
from gpuprov.cluster.plan import beyond_record
from gpuprov.core.errors import GpuprovError, TimedOut
from gpuprov.core.outcome import Outcome
from gpuprov.fleet.agree import (
    Agreed,
    HostsUpOrder,
    agree_with_hosts,
    look_and_plan_parts,
    requests_of_parts,
)
from gpuprov.fleet.done import BroughtUp, PlannedUp
from gpuprov.fleet.hosted_cluster import with_word
from gpuprov.fleet.hosts_leaving import remove_leaving
from gpuprov.fleet.lost_service import tell_lost_service
from gpuprov.fleet.out_of_service import OutOfServiceThere
from gpuprov.fleet.ready import ask_ready
from gpuprov.fleet.tunnel_keys import exchange_keys
from gpuprov.fleet.unreachable_hosts import tell_away_and_back
from gpuprov.fleet.verify_hosts import verify_over_hosts
from gpuprov.lifecycle.verify import after_up
from gpuprov.link.answers import read_answer
from gpuprov.link.several import read_each
from gpuprov.roles.registry import role_of
from gpuprov.shapes.orders import MemberUpOrder
from gpuprov.shapes.outcome import ClusterUp
from gpuprov.spec.overlay import unencrypted_warning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.shrinking import Shrinking
    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.link.hosts import Hosts
    from gpuprov.shapes.nodes import NodeRow
    from gpuprov.shapes.verify import Report


def up_over_hosts(order: HostsUpOrder, hosts: Hosts, *, reporter: Reporter) -> BroughtUp:
    """Bring a cluster that spans hosts to what its spec says, and prove its nodes.

    Raises:
        GpuprovError: Something was refused before anything was changed; the hosts together have too little room, say.
    """
    agreed = agree_with_hosts(order, hosts, reporter)
    _tell_losses(order, agreed.shrinking, reporter)
    seen, spec = agreed.seen, agreed.spec
    if not agreed.changes:
        told = Outcome(changed=tell_away_and_back(seen, hosts, reporter=reporter))
        lost = tell_lost_service(seen)
        return BroughtUp(
            outcome=told,
            spec=spec,
            rows=seen.rows,
            failed=seen.failed,
            away=seen.away,
            lost_service=lost,
            before=seen.rows,
        )
    warning = unencrypted_warning(spec)
    if warning:
        reporter.warn(warning)
    keyed = exchange_keys(agreed.whole, seen, hosts)
    agreed = replace(agreed, whole=keyed.changed_from(agreed.whole))
    secret = agreed.secret or role_of(spec.nodes.role).new_secret()
    with reporter.phase("hosts"):
        done = _work_without_jobs(order, agreed, hosts, secret, reporter)
    with reporter.phase("ready"):
        ready = _wait_ready(agreed, done, hosts, reporter)
        done.changed += tell_away_and_back(seen, hosts, reporter=reporter)
    report = None
    if order.verify and beyond_record(done.changed) and any(done.rows.values()):
        with after_up(spec.name, reporter), reporter.phase("verify"):
            report = _verify(agreed, done, hosts)
    rows = [with_word(row, ready) for found in done.rows.values() for row in found]
    away = [row for row in seen.rows if row.host not in seen.parts]
    rows += [row for row in away if row.name in agreed.whole.homes]
    return BroughtUp(
        outcome=Outcome(changed=tuple(done.changed)),
        spec=spec,
        rows=tuple(sorted(rows, key=lambda row: row.name)),
        failed=done.failed,
        away=seen.away,
        lost_service=tell_lost_service(_seen_after(agreed, done)),
        report=report,
        before=replace(seen, whole=agreed.before).rows,
    )


def _tell_losses(order: HostsUpOrder, shrinking: Shrinking, reporter: Reporter) -> None:
    if order.confirm:
        order.confirm(shrinking)
    if shrinking.nodes:
        reporter.note(f"remove {lost_nodes_line(shrinking.nodes)}")


def look_and_plan_over_hosts(order: HostsUpOrder, hosts: Hosts, *, reporter: Reporter) -> PlannedUp:
    """What `up_over_hosts` would change; raises what it would refuse, and changes nothing."""
    agreed = agree_with_hosts(order, hosts, reporter)
    if order.confirm:
        order.confirm(agreed.shrinking)
    lines = agreed.lines
    if agreed.changes and agreed.seen.rows:  # now that all nodes are known, each host tells what its files lack
        again = {
            host: planned.lines for host, planned in look_and_plan_parts(order, agreed.spec, agreed, hosts).items()
        }
        lines = {**agreed.leaving.lines, **again}
    told, kept, older, unlimited = (
        tuple(f"{host}: {line}" for host, found in of_hosts.items() for line in found)
        for of_hosts in (lines, agreed.kept, agreed.older, agreed.unlimited)
    )
    before = replace(agreed.seen, whole=agreed.before).rows
    return PlannedUp(
        lines=told,
        kept=kept,
        older=older,
        unlimited=unlimited,
        failed=agreed.seen.failed,
        spec=agreed.spec,
        before=before,
    )


@dataclass(kw_only=True)
class _Done:
    """What hosts have done."""

    changed: list[str] = field(default_factory=list)
    rows: dict[str, tuple[NodeRow, ...]] = field(default_factory=dict)
    failed: dict[str, GpuprovError] = field(default_factory=dict)


def _work(order: HostsUpOrder, agreed: Agreed, hosts: Hosts, secret: bytes) -> _Done:
    """Every host does its part, all side by side; one that fails undoes its own part, and the others go on."""
    requests = requests_of_parts(MemberUpOrder, order, agreed.spec, agreed, secret)
    told, failed = read_each(hosts.work(requests), partial(read_answer, ClusterUp))
    return _Done(
        changed=[f"{host}: {line}" for host, one in told.items() for line in one.changed],
        rows={host: one.nodes for host, one in told.items()},
        failed={**agreed.seen.failed, **failed},
    )


def _work_without_jobs(order: HostsUpOrder, agreed: Agreed, hosts: Hosts, secret: bytes, reporter: Reporter) -> _Done:
    """The same, with no job on nodes that leave a host without the node that gives work; hosts that leave are first."""
    there, policy, leaving = OutOfServiceThere(agreed.seen, hosts, reporter), order.policy, agreed.leaving
    gone = agreed.gone
    reached = {*agreed.seen.parts, *leaving.machines} - {there.home}
    names = [one.name for one in gone if one.host in reached and role_of(one.role).has_services]
    out = bool(names) and there.take(names, policy, lost=True)
    done = None
    try:
        policy = replace(policy, force=True, drain_s=None) if out else policy
        removed = remove_leaving(leaving, agreed.spec.name, policy, hosts)
        done = _work(order, agreed, hosts, secret)
        done.changed[:0] = removed
        return done
    finally:
        failed = {*agreed.seen.parts, *leaving.machines} if done is None else set(done.failed)
        if out and failed:
            there.put_back(running=[one.name for one in gone if one.name in names and one.host in failed])


def _wait_ready(agreed: Agreed, done: _Done, hosts: Hosts, reporter: Reporter) -> Mapping[str, str]:
    """Wait until the nodes of the hosts that did their part take work; returns their role's words.

    Where that host does not answer any more, this is noted as its failure: what the others did is told. So it is where
    another host failed, for that is often why nodes are not ready.

    Raises:
        TimedOut: With each node's last state.
    """
    spec, whole = agreed.spec, agreed.whole
    role = role_of(spec.nodes.role)
    names = [member.name for member in whole.members if member.host in done.rows]
    if not role.has_services or not names:
        return {}
    controllers = role.controller_names(spec) or names[:1]
    running = {row.name for rows in done.rows.values() for row in rows if row.status == "running"}
    controller = next((one for one in controllers if one in running), controllers[0])
    home = whole.homes.get(controller, "")
    if home not in done.rows:
        if home not in agreed.seen.away:
            reporter.warn(
                f"nodes were not waited for: {controller} with the {role.title} service is on {home}, which did not do "
                f"its part; no node of cluster {spec.name} takes new jobs unless {controller} runs"
            )
        return {}
    try:
        told = ask_ready(spec.name, names, agreed.seen.machines[home], hosts)
        lines = [f"{home}: {line}" for line in told.changed or ()]
        words = told.words
    except GpuprovError as error:
        if isinstance(error, TimedOut) and not done.failed:
            raise
        done.failed[home] = error
        return {}
    done.changed += lines
    return words


def _verify(agreed: Agreed, done: _Done, hosts: Hosts) -> Report:
    """What the hosts that did their part say of their nodes; one that does not is noted as failed."""
    verified = verify_over_hosts(_seen_after(agreed, done), hosts)
    done.failed |= verified.failed
    return verified.report


def _seen_after(agreed: Agreed, done: _Done) -> SpanningCluster:
    """The cluster with what the hosts that did their part have of it now."""
    parts = {host: replace(agreed.seen.parts[host], rows=rows) for host, rows in done.rows.items()}
    return replace(agreed.seen, spec=agreed.spec, parts=parts, whole=agreed.whole)
