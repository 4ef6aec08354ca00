"""Which host is to have a new node: all are asked what they have of its cluster, and offer to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.cluster.order_label import write_order
from gpuprov.cluster.placement import NoRoom, place_nodes
from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.core.names import check_node_name, name_cluster
from gpuprov.core.silence_limit import QUESTION_S, scaled_limit_s
from gpuprov.fleet.cluster_records import ClusterRecords
from gpuprov.fleet.find_hosted import (
    HERE_ALONE,
    named_besides,
    of_its_hosts,
    put_together,
    refuse_doubles,
    refuse_untold,
)
from gpuprov.fleet.hosted_cluster import host_of_controller
from gpuprov.gpu.allocate import TOO_FEW
from gpuprov.link.answers import read_answer
from gpuprov.link.ask import MemberRequest
from gpuprov.shapes.base import changed, raw
from gpuprov.shapes.cluster_spec import PlacementSpec
from gpuprov.shapes.members import Sought
from gpuprov.shapes.orders import SeekOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.fleet.hosted_order import HostedOrder
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import Hosts
    from gpuprov.link.several import HostAnswer
    from gpuprov.shapes.members import Offer


def get_host_for(order: HostedOrder, known: Mapping[str, RemoteMachine], hosts: Hosts) -> str:
    """The host to which a node of a cluster over hosts would go; changes nothing.

    Raises:
        GpuprovError: None could have it, as `create_over_hosts` says.
    """
    check_node_name(order.node.name)
    return choose_host(order, seek_hosts(order, known, hosts)[0])


def seek_hosts(
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


def get_secret(seen: SpanningCluster, secrets: Mapping[str, bytes]) -> bytes:
    """What the cluster's nodes share, as the host of the node that gives work has it, or else another one."""
    first = host_of_controller(seen)
    found = sorted(((host != first, secret) for host, secret in secrets.items() if secret), key=lambda one: one[0])
    return found[0][1] if found else b""


def choose_host(order: HostedOrder, seen: SpanningCluster) -> str:
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


def find_another(refusal: UsageError, order: HostedOrder, seen: SpanningCluster, host: str) -> str | None:
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
