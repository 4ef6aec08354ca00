"""A new node of a cluster over hosts, or of another host: have its host make it, and tell the others."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from gpuprov.cluster.order_label import write_order
from gpuprov.core.errors import UsageError
from gpuprov.core.names import check_node_name
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import AGAIN
from gpuprov.fleet.done import Done
from gpuprov.fleet.find_hosted import lines_of
from gpuprov.fleet.fleet import require_added
from gpuprov.fleet.found_nodes import locate_nodes, refuse_absent
from gpuprov.fleet.hosted_cluster import host_of_controller, untold_hosts
from gpuprov.fleet.hosted_order import HostedOrder
from gpuprov.fleet.node_home import choose_host, find_another, get_secret, seek_hosts
from gpuprov.fleet.ready import wait_ready_there
from gpuprov.fleet.site_file import read_for_hosts
from gpuprov.link.answers import read_answer
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import read_each, told_by
from gpuprov.roles.registry import role_of
from gpuprov.shapes.base import raw
from gpuprov.shapes.members import Created
from gpuprov.shapes.node_order import NodeOrder
from gpuprov.shapes.orders import CreateOrder, TellOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.lifecycle.create_node import CloneOrder
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import Hosts
    from gpuprov.shapes.whole import WholeCluster


def create_over_hosts(
    order: HostedOrder, known: Mapping[str, RemoteMachine], hosts: Hosts, *, reporter: Reporter
) -> Done | None:
    """Make a node where the cluster spans hosts, or on the host that is said; None where neither is so.

    Raises:
        UsageError: There is no such host, it is none of the cluster's, or the name is in use on another one.
        NoRoom: No host has the GPUs for it.
        GpuprovError: The host does not answer, or it failed there; or no host that answers has the cluster, and another
            one may.
    """
    check_node_name(order.node.name)
    if order.host is not None:
        require_added(order.host, known)
    seen, secrets = seek_hosts(order, known, hosts)
    if seen.spec is None or not seen.spec.hosts:
        return None if order.host is None else _create_alone(order, known[order.host], hosts)
    return _create_beside(order, seen, hosts, get_secret(seen, secrets), reporter)


def clone_over_hosts(
    order: CloneOrder, known: Mapping[str, RemoteMachine], hosts: Hosts, *, reporter: Reporter
) -> Done:
    """Copy a node on the host that has it, and what the nodes of its cluster share.

    Raises:
        UsageError: No host has it.
        GpuprovError: The name is in use on another host, or it failed there.
    """
    found = locate_nodes([order.source], known, hosts)
    refuse_absent([order.source], found, known)
    seen, host = found.cluster, found.homes[order.source]
    if seen is None:  # pragma: no cover - a node that was found is of a cluster
        raise AssertionError
    source = next(row for row in seen.rows if row.name == order.source)
    copy = NodeOrder(
        name=check_node_name(order.name),
        cluster=source.cluster,
        address=order.address,
        role=source.role,
        source=order.source,
        gpu_mode=order.gpu_mode,
    )
    hosted = HostedOrder(node=copy, host=host)
    if seen.spec is None or not seen.spec.hosts:
        return _create_alone(hosted, seen.machines[host], hosts)
    return _create_beside(hosted, replace(seen, failed=untold_hosts(seen)), hosts, b"", reporter)


def _create_beside(order: HostedOrder, seen: SpanningCluster, hosts: Hosts, secret: bytes, reporter: Reporter) -> Done:
    """A node of a cluster over hosts."""
    host = choose_host(order, seen)
    if order.host is None:
        reporter.note(f"{order.node.name} goes to {host}")
    sssd = read_for_hosts(seen.spec) if seen.spec else ""
    try:
        told = _create(order, seen.machines[host], hosts, secret, sssd)
    except UsageError as refusal:
        another = find_another(refusal, order, seen, host)
        if another is None:
            raise
        raise UsageError(
            refusal.what,
            evidence=f"{refusal.evidence}; {another} had free GPUs a moment ago",
            fix=f"{AGAIN}: it chooses the host anew",
        ) from refusal
    changed = [f"{host}: {line}" for line in told.changed]
    whole = _with_answer(seen, told, host)
    failed = dict(seen.failed)
    if whole != seen.whole:
        request = MemberRequest(order=TellOrder(cluster=seen.name, whole=whole))
        told_all, refused = read_each(hosts.work({seen.machines[host]: request for host in seen.parts}), lines_of)
        changed += chain.from_iterable(told_all.values())
        failed |= refused
        role = next((one.role for one in whole.members if one.name == order.node.name), None)
        if role and role_of(role).has_services and host_of_controller(seen) not in refused:
            changed += wait_ready_there(seen, [order.node.name], hosts, reporter)
    return Done(
        outcome=Outcome(changed=tuple(changed)),
        failed=failed,
        asked=len(seen.machines),
        lack="the new node is not recorded on all hosts",
    )


def _create_alone(order: HostedOrder, machine: RemoteMachine, hosts: Hosts) -> Done:
    """A node of a cluster of that host alone."""
    told = _create(order, machine, hosts)
    return Done(outcome=Outcome(changed=tuple(f"{machine.name}: {line}" for line in told.changed)))


def _create(order: HostedOrder, machine: RemoteMachine, hosts: Hosts, secret: bytes = b"", sssd: str = "") -> Created:
    wanted = CreateOrder(
        order=raw(write_order(order.node)),
        gpu_mode=order.node.gpu_mode,
        engine=order.engine,
        secret=secret,
        sssd=sssd,
        wait_s=order.wait_s,
    )
    (answer,) = hosts.work({machine: MemberRequest(order=wanted)})
    return read_answer(Created, told_by(answer), machine.name)


def _with_answer(seen: SpanningCluster, told: Created, host: str) -> WholeCluster:
    """The nodes of all hosts, with those that the host has now."""
    mine = told.whole.on(host)
    if not mine:
        return seen.whole
    known = mine[0]
    whole = seen.whole.with_host(host, mine, cpus=known.cpus, memory_bytes=known.memory_bytes)
    return whole.changed_from(seen.whole)
