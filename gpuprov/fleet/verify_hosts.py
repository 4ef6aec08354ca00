"""Every host of a cluster verifies its nodes, and they are compared; one report of all."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.cluster.between_hosts import nodes_beside
from gpuprov.core.errors import GpuprovError, HostNotReady, UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.names import fold
from gpuprov.fleet.done import VerifiedHosts
from gpuprov.link.answers import read_answer, strictly
from gpuprov.link.ask import MemberRequest, OtherVersion
from gpuprov.link.several import told_by
from gpuprov.shapes.base import changed
from gpuprov.shapes.orders import VerifyOrder
from gpuprov.shapes.verify import Between, Check, NodeReport, Report
from gpuprov.verify.chain import judge_between
from gpuprov.verify.models import Expectation, Observation
from gpuprov.verify.request import Work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import Hosts
    from gpuprov.link.several import HostAnswer
    from gpuprov.shapes.base import Told
    from gpuprov.shapes.choices import AccessName
    from gpuprov.shapes.whole import Member

_QUICK = Work()


@dataclass(frozen=True, kw_only=True)
class HostVerified:
    """What a host says of itself, of its nodes, and of its way to the others."""

    own: NodeReport
    nodes: tuple[NodeReport, ...]
    between: Between


def verify_over_hosts(
    seen: SpanningCluster, hosts: Hosts, *, nodes: Sequence[str] = (), work: Work = _QUICK
) -> VerifiedHosts:
    """Have every host that answers verify its nodes, and compare the hosts; changes nothing.

    Args:
        hosts: The way to its hosts.
        nodes: Names of those to check; none for all.
        work: How hard the kernels work.

    Raises:
        UsageError: A node is on none of these hosts.
    """
    began_s = time.monotonic()
    chosen = _choose(seen, nodes)
    failed = {host: seen.failed[host] for host in chosen if host in seen.failed}
    verified: dict[str, HostVerified] = {}
    answers: dict[str, HostAnswer] = {}
    for answer in hosts.work(_requests(seen, chosen, work)):
        host = answer.machine.name
        try:
            one = read_verified(told_by(answer), host)
            _refuse_other_nodes(one, chosen[host], host)
            verified[host], answers[host] = one, answer
        except GpuprovError as error:
            failed[host] = error
    drivers = {host: one.between.driver for host, one in verified.items()}
    places: dict[str, NodeReport] = {host: _judge(seen.name, host, _unanswered(failed[host])) for host in failed}
    for host, one in verified.items():
        place = _judge(seen.name, host, _observe(one, answers[host], drivers))
        places[host] = changed(one.own, node=host, checks=(*place.checks, *one.own.checks))
    found = [node for one in verified.values() for node in one.nodes]
    members = [member for member in seen.whole.members if member.name in chosen.get(member.host, ())]
    found += [_unverified(member) for member in members if member.host in failed]
    report = Report(
        cluster=seen.name,
        nodes=tuple(sorted(found, key=lambda node: node.node)),
        duration_s=time.monotonic() - began_s,
        level=work.level,
        hosts=tuple(places[host] for host in seen.machines if host in places),
    )
    return VerifiedHosts(report=report, failed=failed, asked=len(chosen))


def _choose(seen: SpanningCluster, nodes: Sequence[str]) -> dict[str, list[str]]:
    """The nodes to check, by host; a host that does not answer is there as well, if it has one or all are checked."""
    there: dict[str, list[str]] = {host: [row.name for row in part.rows] for host, part in seen.parts.items()}
    there |= {host: [member.name for member in seen.whole.on(host)] for host in seen.failed}
    strange = sorted(set(nodes) - {name for names in there.values() for name in names})
    if strange:
        raise UsageError(
            f"no host of cluster {seen.name} has a node {', '.join(strange)}",
            evidence=", ".join(f"{host}: {fold(names) or 'none'}" for host, names in there.items()),
            fix=f"gpuprov cluster status {seen.name}",
        )
    if not any(there.values()):
        raise UsageError(
            f"cluster {seen.name} has no nodes", evidence=f"on {', '.join(there)}", fix="gpuprov cluster up -n 4"
        )
    mine = {host: [name for name in names if not nodes or name in nodes] for host, names in there.items()}
    return {host: names for host, names in mine.items() if names or (host in seen.failed and not nodes)}


def _requests(seen: SpanningCluster, chosen: Mapping[str, list[str]], work: Work) -> dict[RemoteMachine, MemberRequest]:
    running = {row.name for part in seen.parts.values() for row in part.rows if row.status == "running"}

    def order(host: str) -> VerifyOrder:
        return VerifyOrder(
            cluster=seen.name,
            nodes=tuple(chosen[host]),
            level=work.level,
            seconds=work.seconds,
            beside=tuple(nodes_beside(seen.whole, host, running)),
            away=tuple(seen.failed),
        )

    there = [host for host in chosen if host in seen.parts]
    return {seen.machines[host]: MemberRequest(order=order(host)) for host in there}


def read_verified(told: Told, host: str) -> HostVerified:
    """What a host answered, under the name by which it is known here.

    Raises:
        HostNotReady: It is no report.
    """
    report = read_answer(Report, told, host)

    def complete() -> HostVerified:
        if not report.host or not report.between:
            raise ValueError("it says nothing of the host itself")
        if len({node.node for node in report.nodes}) < len(report.nodes):
            raise ValueError("a node occurs twice")
        own, *nodes = (changed(place, host=host) for place in (report.host, *report.nodes))
        return HostVerified(own=own, nodes=tuple(nodes), between=report.between)

    return strictly(complete, host)


def _refuse_other_nodes(one: HostVerified, wanted: Sequence[str], host: str) -> None:
    """Refuse a report that leaves out a node, or speaks for those of another host.

    Raises:
        HostNotReady: It does.
    """
    told = {node.node for node in one.nodes}
    if told != set(wanted):
        raise HostNotReady(
            f"{host} has not verified the nodes that it was asked about",
            evidence=f"asked: {fold(list(wanted)) or 'none'}; answered: {excerpt(', '.join(sorted(told))) or 'none'}",
            fix=f"bring gpuprov there up to date: gpuprov host add {host}",
        )


def _observe(one: HostVerified, answer: HostAnswer, drivers: Mapping[str, str | None]) -> Observation:
    """A host that answers, as verify/checks/between.py reads it.

    Its clock is compared with the time halfway between question and answer, without the time of the work.
    """
    way_s = max(0.0, (answer.heard_s - answer.asked_s) - (one.between.ended_s - one.between.began_s))
    ahead_s = ((one.between.began_s - answer.asked_s) + (one.between.ended_s - answer.heard_s)) / 2
    facts = {
        "versions": {"there": __version__, "here": __version__},  # with another one nobody answers
        "clock": {"ahead_s": ahead_s, "unsure_s": way_s / 2},
        "drivers": dict(drivers),
        "overlay": one.between.overlay,
    }
    return Observation(facts=facts, seconds=way_s)


def _unanswered(error: GpuprovError) -> Observation:
    if isinstance(error, OtherVersion):
        return Observation(facts={"versions": {"there": error.there, "here": __version__}})
    return Observation(problem=f"{error.what}: {error.evidence}")


def _judge(cluster: str, host: str, seen: Observation) -> NodeReport:
    return judge_between(Expectation(node=host, status="running", cluster=cluster, host=host), seen)


def _unverified(member: Member) -> NodeReport:
    """A node of a host that does not answer."""
    cause = "host-answers"
    check = Check(
        id="node-running",
        layer="node",
        status="skip",
        severity="critical",
        evidence=f"because of {cause} of {member.host}",
        cause=cause,
    )
    access: AccessName = "simulated" if member.simulated else "none"
    return NodeReport(
        node=member.name, access=access, gpus=member.gpus, checks=(check,), duration_s=0.0, host=member.host
    )
