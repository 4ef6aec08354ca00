"""Bring a cluster over hosts to a state, idempotently: for Ansible, by the stories that do so for a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.documents.module_result import BeforeAfter
from gpuprov.fleet.agree import HostsUpOrder
from gpuprov.fleet.fleet import Fleet
from gpuprov.fleet.hosted_cluster import find_over_hosts, find_spanning, look_for_spanning, machine_of
from gpuprov.host.remote.several import part_error
from gpuprov.planes.across.cluster_order import resolve_name, resolve_spanning
from gpuprov.stories.cluster_down import down_over_hosts
from gpuprov.stories.cluster_up import look_and_plan_over_hosts, up_over_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.host.base import Host
    from gpuprov.host.remote.hosts import Hosts
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.planes.across.cluster_order import ClusterOrder
    from gpuprov.planes.across.leaving import JobsPolicy
    from gpuprov.workflows.ensure import ClusterGoal


def ensure_over_hosts(  # noqa: PLR0913 - what a module is given, and whom it tells
    order: ClusterOrder,
    engine: str | None,
    goal: ClusterGoal,
    host: Host,
    known: Mapping[str, RemoteMachine],
    hosts: Hosts,
    *,
    reporter: Reporter,
    check: bool = False,
) -> BeforeAfter | None:
    """Bring a cluster that spans hosts to its goal; with `check`, only say what would change. None if it spans none.

    Args:
        order: The cluster.
        engine: That of hosts for which the spec names none; without a file, the cluster is on this machine then.
        goal: What is to become of it.
        host: This machine.
        known: The hosts that `host add` has remembered.
        hosts: The way to hosts.
        reporter: Is told what goes on.
        check: Whether nothing is to be changed.

    Raises:
        GpuprovError: It is refused, or hosts did not do their part; what the others did stays.
    """
    name = resolve_name(order)
    if order.file is not None:
        draft = resolve_spanning(order, engine, None)
        if draft is None:
            return None
        machines = {one.name: machine_of(one, known) for one in draft.spec.hosts}
        # A new cluster needs all its hosts: where one does not answer, that is said when it is to be made
        seen = (find_spanning if goal == "absent" else look_for_spanning)(name, machines, hosts)
    elif engine is not None:
        return None
    else:
        seen = find_over_hosts(Fleet(here=host, others=known, connect=lambda: hosts, reporter=reporter), name)
        draft = resolve_spanning(order, engine, seen.spec if seen else None)
        if draft is None:
            return None
    if goal == "absent":
        return _absent(seen, hosts, order.policy, check=check)
    before = seen.rows if seen else ()
    wanted = HostsUpOrder(
        draft=draft, known=known, policy=order.policy, verify=order.verify, prune=order.prune, found=seen
    )
    if check:
        planned = look_and_plan_over_hosts(wanted, hosts, reporter=reporter)
        if planned.error:
            raise planned.error
        return BeforeAfter(changed=planned.lines, before=before, after=before)
    result = up_over_hosts(wanted, hosts, reporter=reporter)
    if result.error:
        raise result.error
    return BeforeAfter(changed=result.outcome.changed, before=before, after=result.rows, report=result.report)


def _absent(seen: SpanningCluster | None, hosts: Hosts, policy: JobsPolicy, *, check: bool) -> BeforeAfter:
    if seen is None:
        return BeforeAfter()
    if check:
        lines = tuple(f"{row.host}: removed node {row.name}" for row in seen.rows)
        return BeforeAfter(changed=lines, before=seen.rows, after=seen.rows)
    done = down_over_hosts(seen, hosts, policy)
    error = part_error(done.failed, of=done.asked)
    if error:
        raise error
    return BeforeAfter(changed=done.outcome.changed, before=seen.rows)
