"""`create-node` in a cluster over hosts, or on another host: choose it, have it make the node, tell the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from gpuprov.cluster.order_label import write_order
from gpuprov.cluster.placement import NoRoom, place_nodes
from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.core.names import check_node_name, name_cluster
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import AGAIN
from gpuprov.core.silence_limit import QUESTION_S, scaled_limit_s
from gpuprov.fleet.cluster_records import ClusterRecords
from gpuprov.fleet.hosted_cluster import (
    HERE_ALONE,
    host_of_head,
    lines_of,
    named_besides,
    of_its_hosts,
    put_together,
    refuse_doubles,
    refuse_untold,
    untold_hosts,
)
from gpuprov.fleet.ready import wait_ready_there
from gpuprov.gpu.allocate import TOO_FEW
from gpuprov.host.remote.answers import read_answer
from gpuprov.host.remote.ask import MemberRequest
from gpuprov.host.remote.several import read_each, told_by
from gpuprov.planes.registry import plane_of
from gpuprov.shapes.base import changed, raw
from gpuprov.shapes.cluster_spec import PlacementSpec
from gpuprov.shapes.members import Created, Sought
from gpuprov.shapes.orders import CreateOrder, SeekOrder, TellOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.host.remote.hosts import Hosts
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.host.remote.several import HostAnswer
    from gpuprov.shapes.members import Offer
    from gpuprov.shapes.node_order import NodeOrder
    from gpuprov.shapes.whole import WholeCluster


@dataclass(frozen=True, kw_only=True)
class HostedOrder:
    """A node, and where it is to be.

    Attributes:
        host: Which is to have it; None to place it.
        engine: For a cluster that is not there yet; empty for the default one there.
        wait_s: How long to wait for GPUs; None not at all.
    """

    node: NodeOrder
    host: str | None = None
    engine: str = ""
    wait_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class HostedNode:
    """What was done, on which host, and why hosts do not know of it."""

    outcome: Outcome
    host: str
    failed: Mapping[str, GpuprovError]
    asked: int


def create_over_hosts(
    order: HostedOrder, known: Mapping[str, RemoteMachine], hosts: Hosts, *, reporter: Reporter
) -> HostedNode | None:
    """Make a node where the cluster spans hosts, or on the host that is said; None where neither is so.

    Raises:
        UsageError: There is no such host, it is none of the cluster's, or the name is in use on another one.
        NoRoom: No host has the GPUs for it.
        GpuprovError: The host does not answer, or it failed there; or no host that answers has the cluster, and another
            one may.
    """
    check_node_name(order.node.name)
    if order.host is not None and order.host not in known:
        raise UsageError(
            f"no host {order.host:.60} was added",
            evidence=f"hosts: {', '.join(known) or 'none'}",
            fix=f"gpuprov host add {order.host:.60} --address ADDRESS; or list them: gpuprov host list",
        )
    seen, secrets = _seek(order, known, hosts)
    if seen.spec is None or not seen.spec.hosts:
        return None if order.host is None else _create_alone(order, known[order.host], hosts)
    return _create_beside(order, seen, hosts, _secret(seen, secrets), reporter)


def clone_on_host(
    order: HostedOrder, seen: SpanningCluster, machine: RemoteMachine, hosts: Hosts, *, reporter: Reporter
) -> HostedNode:
    """Copy a node on its host, which has what the nodes of the cluster share.

    Args:
        order: The copy, and its source.
        seen: The cluster of the source.
        machine: The host of the source.
        hosts: The way to all of them.
        reporter: Is told what goes on.

    Raises:
        GpuprovError: The name is in use on another host, or it failed there.
    """
    check_node_name(order.node.name)
    if seen.spec is None or not seen.spec.hosts:
        return _create_alone(order, machine, hosts)
    return _create_beside(order, replace(seen, failed=untold_hosts(seen)), hosts, b"", reporter)


def _create_beside(
    order: HostedOrder, seen: SpanningCluster, hosts: Hosts, secret: bytes, reporter: Reporter
) -> HostedNode:
    """A node of a cluster over hosts."""
    host = _choose(order, seen)
    reporter.note(f"{order.node.name} goes to {host}")
    try:
        told = _create(order, seen.machines[host], hosts, secret)
    except UsageError as refusal:
        another = _find_another(refusal, order, seen, host)
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
        if role and plane_of(role).has_services and host_of_head(seen) not in refused:
            changed += wait_ready_there(seen, [order.node.name], hosts, reporter)
    return HostedNode(outcome=Outcome(changed=tuple(changed)), host=host, failed=failed, asked=len(seen.machines))


def get_host_for(order: HostedOrder, known: Mapping[str, RemoteMachine], hosts: Hosts) -> str:
    """The host to which a node of a cluster over hosts would go; changes nothing.

    Raises:
        GpuprovError: None could have it, as `create_over_hosts` says.
    """
    check_node_name(order.node.name)
    return _choose(order, _seek(order, known, hosts)[0])


def _seek(
    order: HostedOrder, known: Mapping[str, RemoteMachine], hosts: Hosts
) -> tuple[SpanningCluster, dict[str, bytes]]:
    """What hosts have of the cluster, and offer to the node; then, by host, what its nodes share."""
    sought = changed(order.node, source=None)  # which one host alone has
    question = SeekOrder(order=raw(write_order(sought)), gpu_mode=order.node.gpu_mode)
    request = MemberRequest(order=question, total_s=scaled_limit_s(QUESTION_S))
    secrets: dict[str, bytes] = {}
    name = order.node.cluster
    records = ClusterRecords(name, hosts)

    def further(answer: HostAnswer) -> dict[RemoteMachine, MemberRequest]:
        return dict.fromkeys(named_besides(known, _without_secret(answer, {}), records), request)

    told = hosts.ask(dict.fromkeys(known.values(), request), further)
    answers = [_without_secret(answer, secrets) for answer in told]
    seen = put_together(name, known, [answer for answer in answers if answer.machine in known.values()], records)
    if seen.spec is None or not seen.spec.hosts:
        there = seen.parts.get(order.host or "")
        if there is None or not there.exists:
            refuse_untold(seen, instead="" if order.host else HERE_ALONE)
        return seen, {}
    return of_its_hosts(name, seen.spec, known, answers, records), secrets


def _without_secret(answer: HostAnswer, secrets: dict[str, bytes]) -> HostAnswer:
    """The answer as that to `part`; what it says besides is put with the secrets."""
    told = answer.document
    if told is None:
        return answer

    try:
        sought = read_answer(Sought, told, answer.machine.name)
    except GpuprovError as error:
        return replace(answer, document=None, error=error)
    secrets[answer.machine.name] = sought.secret
    return replace(answer, document=sought.part)


def _secret(seen: SpanningCluster, secrets: Mapping[str, bytes]) -> bytes:
    """What the cluster's nodes share, as the host of the node that gives work has it, or else another one."""
    first = host_of_head(seen)
    found = sorted(((host != first, secret) for host, secret in secrets.items() if secret), key=lambda one: one[0])
    return found[0][1] if found else b""


def _choose(order: HostedOrder, seen: SpanningCluster) -> str:
    """The host that has the node already, else the one that is said, else the one that placement gives.

    Raises:
        UsageError: That is not one that could have it.
    """
    name = order.node.name
    refuse_doubles(seen, name)
    home = next((row.host for row in seen.rows if row.name == name), None)
    if home is not None and order.host not in (None, home):
        raise UsageError(
            f"the name {name} is taken by a node on {home}",
            evidence=f"cluster {seen.name} has one such node, and {order.host} is another host",
            fix=f"use another name; about that node: gpuprov show {name}",
        )
    wanted = home or order.host
    if wanted is not None and wanted not in seen.machines:
        raise UsageError(
            f"cluster {seen.name} does not span {wanted}",
            evidence=f"its hosts: {', '.join(seen.machines)}",
            fix=f"add it to hosts in the spec: gpuprov cluster up --name {seen.name} -f FILE",
        )
    if wanted is not None:
        if wanted in seen.failed:
            raise seen.failed[wanted]
        if wanted not in seen.parts or seen.parts[wanted].spec is None:
            raise UsageError(
                f"{wanted} has nothing of cluster {seen.name} yet",
                evidence="it has no networks on that host",
                fix=name_cluster("gpuprov cluster up", seen.name),
            )
        return wanted
    offers = [part.offer for part in seen.parts.values() if part.offer]
    try:
        return _place(name, seen, offers)
    except NoRoom:
        able = [offer.host for offer in offers if not offer.lack and offer.gpus >= offer.size]
        if order.wait_s is None or not able:
            raise
        return able[0]


def _place(name: str, seen: SpanningCluster, offers: Sequence[Offer]) -> str:
    """The host that placement gives.

    Raises:
        NoRoom: None can have it.
        UsageError: A node of the cluster exists on several hosts.
    """
    refuse_doubles(seen)
    if seen.spec is None:  # pragma: no cover - asked only where there is one
        raise AssertionError
    fixed = seen.spec.placement.strategy == "fixed"  # for the spec's nodes, not for this one
    spec = changed(seen.spec, placement=PlacementSpec()) if fixed else seen.spec
    return place_nodes(spec, [name], offers, away=seen.whole.homes)[name]


def _find_another(refusal: UsageError, order: HostedOrder, seen: SpanningCluster, host: str) -> str | None:
    """The host on which the next run may place the node, where another run was first to the GPUs of this one."""
    name = order.node.name
    goes_anywhere = order.host is None and name not in seen.whole.homes  # a node that has a home stays there
    if not goes_anywhere or f"{TOO_FEW} for {name}:" not in refusal.what:
        return None
    others = [part.offer for part in seen.parts.values() if part.offer and part.offer.host != host]
    try:
        return _place(name, seen, others)
    except UsageError:
        return None


def _create_alone(order: HostedOrder, machine: RemoteMachine, hosts: Hosts) -> HostedNode:
    """A node of a cluster of that host alone."""
    told = _create(order, machine, hosts)
    outcome = Outcome(changed=tuple(f"{machine.name}: {line}" for line in told.changed))
    return HostedNode(outcome=outcome, host=machine.name, failed={}, asked=1)


def _create(order: HostedOrder, machine: RemoteMachine, hosts: Hosts, secret: bytes = b"") -> Created:
    wanted = CreateOrder(
        order=raw(write_order(order.node)),
        gpu_mode=order.node.gpu_mode,
        engine=order.engine,
        secret=secret,
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
