"""Where nodes are that this machine does not have: each host is asked, and what it has of their cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuprov.cluster.find_node import AbsentNode
from gpuprov.core.errors import UsageError
from gpuprov.core.names import fold
from gpuprov.core.silence_limit import QUESTION_S, scaled_limit_s
from gpuprov.fleet.cluster_records import ClusterRecords
from gpuprov.fleet.find_hosted import machine_of, put_together, several_have
from gpuprov.link.answers import read_answer
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import part_error, read_each
from gpuprov.shapes.base import raw
from gpuprov.shapes.members import FoundParts, PartOfHost
from gpuprov.shapes.orders import FindOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.errors import GpuprovError
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import HostAnswers, Hosts
    from gpuprov.shapes.base import Told


@dataclass(frozen=True, kw_only=True)
class FoundNodes:
    """Nodes of one cluster, and where they are.

    Attributes:
        cluster: As its hosts that answer say; None where no node was found.
        homes: The host of each node that was found.
        failed: Why hosts do not answer.
    """

    cluster: SpanningCluster | None
    homes: Mapping[str, str]
    failed: Mapping[str, GpuprovError]

    def on(self, host: str) -> tuple[str, ...]:
        """Those on a host."""
        return tuple(node for node, home in self.homes.items() if home == host)


def locate_nodes(names: Sequence[str], known: Mapping[str, RemoteMachine], hosts: Hosts) -> FoundNodes:
    """Where nodes are; hosts that did not answer when last asked are asked only if a node is on no other one.

    Raises:
        UsageError: A node is on more than one host, or they are of several clusters.
        GpuprovError: Hosts do not answer, and a node may be there.
    """
    request = MemberRequest(order=FindOrder(nodes=tuple(names)), total_s=scaled_limit_s(QUESTION_S))
    away = [machine for machine in known.values() if hosts.is_away(machine)]
    first = [machine for machine in known.values() if machine not in away]
    answers = list(hosts.ask(dict.fromkeys(first, request)))
    if away and not set(names) <= _homes(names, answers).keys():
        answers += hosts.ask(dict.fromkeys(away, request))
    homes = _homes(names, answers)
    parts, failed = read_each(answers, _parts)
    absent = [name for name in names if name not in homes]
    if absent and failed:
        error = part_error(failed, of=len(answers), what=f"no host that answers has {_nodes(absent)}")
        raise error or AssertionError
    clusters = {cluster for host, found in parts.items() for cluster in _clusters_of(found, homes, host)}
    if len(clusters) > 1:
        raise UsageError(
            f"{fold(list(names))} are nodes of several clusters",
            evidence=", ".join(sorted(clusters)),
            fix="run one command for each cluster: gpuprov list",
        )
    cluster = next(iter(clusters), None)
    return FoundNodes(
        cluster=None if cluster is None else _cluster(cluster, known, answers, hosts), homes=homes, failed=failed
    )


def _parts(document: Told, host: str) -> Mapping[str, PartOfHost]:
    found = read_answer(FoundParts, document, host).parts
    return {cluster: read_answer(PartOfHost, part, host) for cluster, part in found.items()}


def _names_in(part: PartOfHost) -> set[str]:
    return {row.name for row in part.nodes}


def _clusters_of(parts: Mapping[str, PartOfHost], homes: Mapping[str, str], host: str) -> set[str]:
    """Those on a host that have one of the nodes there."""
    mine = {node for node, home in homes.items() if home == host}
    return {cluster for cluster, part in parts.items() if _names_in(part) & mine}


def _homes(names: Sequence[str], answers: HostAnswers) -> dict[str, str]:
    homes: dict[str, str] = {}
    machines = {answer.machine.name: answer.machine for answer in answers}
    for host, parts in read_each(answers, _parts)[0].items():
        there = {node for part in parts.values() for node in _names_in(part)}
        for name in names:
            if name in there and homes.setdefault(name, host) != host:
                raise several_have(name, [machines[homes[name]], machines[host]])
    return {name: homes[name] for name in names if name in homes}


def _cluster(name: str, known: Mapping[str, RemoteMachine], answers: HostAnswers, hosts: Hosts) -> SpanningCluster:
    parts = []
    for answer in answers:
        found = _parts(answer.document, answer.machine.name) if answer.document else {}
        if answer.document is None or name in found:
            parts.append(replace(answer, document=raw(found[name]) if name in found else None))
    records = ClusterRecords(name, hosts)
    seen = put_together(name, known, parts, records)
    named = seen.spec.hosts if seen.spec else ()
    machines = {host.name: machine_of(host, known) for host in named} or {host: known[host] for host in seen.parts}
    mine = [answer for answer in parts if answer.machine.name in machines]
    return put_together(name, machines, mine, records)


def refuse_absent(names: Sequence[str], found: FoundNodes, known: Mapping[str, RemoteMachine]) -> None:
    """Refuse names that no host has.

    Raises:
        AbsentNode: There are some.
    """
    absent = [name for name in names if name not in found.homes]
    if absent:
        raise AbsentNode(
            absent,
            "",
            evidence=f"neither here nor on {', '.join(known) or 'another host'}",
            fix="list the nodes: gpuprov list",
        )


def _nodes(names: Sequence[str]) -> str:
    return f"node {fold(list(names))}"
