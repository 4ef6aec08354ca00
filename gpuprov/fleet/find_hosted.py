"""Find clusters that span hosts, and nodes on hosts: every host is asked side by side."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.find_node import AbsentNode
from gpuprov.cluster.placement import on_several_hosts
from gpuprov.cluster.whole import newest_whole
from gpuprov.core.errors import GpuprovError, HostNotReady, NoEngine, PartDone, UsageError
from gpuprov.core.silence_limit import QUESTION_S, scaled_limit_s
from gpuprov.fleet.cluster_records import ClusterRecords
from gpuprov.fleet.hosted_cluster import SpanningCluster
from gpuprov.fleet.member.told_part import read_host_part
from gpuprov.link.address import RemoteMachine
from gpuprov.link.answers import read_answer
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import away_since, part_error, read_each
from gpuprov.shapes.nodes import NodeRow, Nodes
from gpuprov.shapes.orders import ListOrder, PartOrder
from gpuprov.shapes.outcome import Changes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.fleet.member.host_part import HostPart
    from gpuprov.link.hosts import HostAnswers, Hosts
    from gpuprov.link.several import HostAnswer
    from gpuprov.shapes.base import Told
    from gpuprov.shapes.cluster_spec import ClusterSpec, HostSpec


HERE_ALONE: Final = "for a cluster on this machine alone, add --engine ENGINE"


def machine_of(host: HostSpec, known: Mapping[str, RemoteMachine]) -> RemoteMachine:
    """The way to a host of a spec: as the spec says it, else as `host add` has remembered it."""
    if host.address is None and host.name in known:
        return known[host.name]
    return RemoteMachine(
        name=host.name,
        address=host.ssh_target,
        user=host.user or "",
        port=host.port,
        identity_file=host.identity_file or "",
        proxy_jump=host.proxy_jump or "",
    )


def find_spanning(
    name: str, known: Mapping[str, RemoteMachine], hosts: Hosts, *, instead: str = "", disks: bool = False
) -> SpanningCluster | None:
    """The cluster of that name that spans hosts, as `look_for_spanning` does; None where no host has one.

    Raises:
        GpuprovError: As `refuse_untold` says; `instead` is what can be done then.
    """
    seen = look_for_spanning(name, known, hosts, disks=disks)
    if seen.spec and seen.spec.hosts:
        return seen
    refuse_untold(seen, instead=instead)
    return None


def look_for_spanning(
    name: str, known: Mapping[str, RemoteMachine], hosts: Hosts, *, disks: bool = False
) -> SpanningCluster:
    """What hosts have of the cluster of that name; where it spans some, what these have of it.

    The hosts that `host add` has remembered are asked, and those that the cluster has besides once one of them names
    these.
    """
    question = MemberRequest(order=PartOrder(cluster=name, disks=disks), total_s=scaled_limit_s(QUESTION_S))
    records = ClusterRecords(name, hosts)
    answers = hosts.ask(
        dict.fromkeys(known.values(), question),
        lambda answer: dict.fromkeys(named_besides(known, answer, records), question),
    )
    there = set(known.values())
    seen = put_together(name, known, [answer for answer in answers if answer.machine in there], records)
    if not (seen.spec and seen.spec.hosts):
        return seen
    return of_its_hosts(name, seen.spec, known, answers, records)


def refuse_untold(seen: SpanningCluster, *, instead: str = "") -> None:
    """Refuse to take a cluster for absent that a host may have which does not say so.

    As when `cluster down` was cut off: what is left of a cluster is on the host that is unreachable.

    Args:
        seen: What all hosts have said of it.
        instead: What can be done without these hosts.

    Raises:
        GpuprovError: Hosts that may have it do not answer, or none does.
    """
    of = len(seen.machines)
    untold = {host: error for host, error in seen.failed.items() if not isinstance(error, NoEngine)}
    error = part_error(untold, of=of, what=f"hosts that may have the cluster {seen.name} do not answer")
    if error is None:
        return
    fix = "; ".join(filter(None, (error.fix, instead)))
    if len(untold) == of:
        whats = "\n".join(one.what for one in untold.values())
        raise HostNotReady(f"none of {of} hosts responds", evidence=whats, fix=fix)
    raise PartDone(error.what, evidence=error.evidence, fix=fix)


def named_besides(
    known: Mapping[str, RemoteMachine], answer: HostAnswer, records: ClusterRecords
) -> tuple[RemoteMachine, ...]:
    """The hosts that a cluster has besides those that are known, as one host answers to `part`.

    None where another host has recorded the same, which is asked for it.
    """
    parts, _ = read_each([answer], read_host_part)
    specs = [records.complete_first(answer.machine, part).spec for part in parts.values()]
    return tuple(machine_of(host, known) for spec in specs if spec for host in spec.hosts if host.name not in known)


def of_its_hosts(
    name: str,
    spec: ClusterSpec,
    known: Mapping[str, RemoteMachine],
    answers: HostAnswers,
    records: ClusterRecords,
) -> SpanningCluster:
    """The cluster, from the answers of the hosts that its spec names."""
    mine = {host.name: machine_of(host, known) for host in spec.hosts}
    asked = {**mine, **known}  # an older spec may have named another way to a host
    of_mine = [one for one in answers if one.machine.name in mine and one.machine == asked[one.machine.name]]
    return put_together(name, mine, of_mine, records)


def require_spanning(name: str, known: Mapping[str, RemoteMachine], hosts: Hosts) -> SpanningCluster:
    """The cluster of that name that spans hosts.

    Raises:
        UsageError: It is not.
        GpuprovError: No host answers at all.
    """
    seen = find_spanning(name, known, hosts)
    if seen is None:
        raise UsageError(
            f"there is no cluster {name} that spans hosts",
            evidence=f"asked: {', '.join(known) or 'no host'}",
            fix="gpuprov list",
        )
    return seen


def look_at_spanning(
    name: str,
    machines: Mapping[str, RemoteMachine],
    orders: Mapping[str, PartOrder],
    hosts: Hosts,
    found: SpanningCluster | None = None,
) -> SpanningCluster:
    """What these hosts have of a cluster and say besides, as they are ordered; changes nothing.

    Hosts that were unreachable when it was `found`, a moment ago, are not asked.
    """
    away = {host: since for host, since in (found.away if found else {}).items() if host in machines}
    requests = {
        machine: MemberRequest(order=orders[host], total_s=scaled_limit_s(QUESTION_S))
        for host, machine in machines.items()
        if host not in away
    }
    records = ClusterRecords(name, hosts, found.parts.values() if found else ())
    seen = put_together(name, machines, hosts.ask(requests), records)
    failed = {host: found.failed[host] for host in away} if found else {}
    return replace(seen, failed={**failed, **seen.failed}, away={**away, **seen.away})


def put_together(
    name: str, machines: Mapping[str, RemoteMachine], answers: HostAnswers, records: ClusterRecords
) -> SpanningCluster:
    """The cluster, from what its hosts have answered to `part`, and have recorded."""
    asked = {answer.machine.name: answer.machine for answer in answers}

    def read(told: Told, host: str) -> HostPart:
        return records.complete(asked[host], read_host_part(told, host))

    parts, failed = read_each(answers, read)
    newest = newest_whole([part.whole for part in parts.values() if part.whole])
    specs = [part.spec for part in parts.values() if part.spec and part.whole in (newest, None)]
    specs.sort(key=lambda spec: not spec.hosts)
    return SpanningCluster(
        name=name,
        spec=next(iter(specs), None),
        whole=newest,
        machines=machines,
        parts=parts,
        failed=failed,
        away=away_since(answers),
    )


def lines_of(told: Told, host: str) -> list[str]:
    """What a host has changed, each line with the host."""
    return [f"{host}: {line}" for line in read_answer(Changes, told, host).changed]


def get_host_of_node(node: str, known: Mapping[str, RemoteMachine], hosts: Hosts) -> tuple[RemoteMachine, NodeRow]:
    """The host that has a node, and what it says of it.

    Hosts that did not answer when last asked are asked only if no other one has it.

    Raises:
        UsageError: None that answers has it, or more than one.
        PartDone: None that answers has it, and some do not answer.
    """
    request = MemberRequest(order=ListOrder(), total_s=scaled_limit_s(QUESTION_S))
    away = [machine for machine in known.values() if hosts.is_away(machine)]
    first = [machine for machine in known.values() if machine not in away]
    answers = list(hosts.ask(dict.fromkeys(first, request)))
    homes, failed = _homes_of(node, answers)
    if not homes and away:
        answers += hosts.ask(dict.fromkeys(away, request))
        homes, failed = _homes_of(node, answers)
    if len(homes) == 1:
        return homes[0]
    if homes:
        raise several_have(node, [machine for machine, _ in homes])
    error = part_error(failed, of=len(answers), what=f"no host that answers has a node {node}")
    raise error or AbsentNode(
        [node],
        "",
        evidence=f"neither here nor on {', '.join(machine.name for machine in known.values())}",
        fix="list the nodes: gpuprov list",
    )


def several_have(node: str, machines: Sequence[RemoteMachine]) -> UsageError:
    """The error where nodes on several hosts, perhaps of several clusters, have the name that was typed."""
    ways = [f"ssh {machine.destination} gpuprov show {node}" for machine in machines]
    return UsageError(
        f"more than one host has a node {node}",
        evidence=", ".join(machine.name for machine in machines),
        fix=f"run the command on the node's host: {', or '.join(ways)}",
    )


def refuse_doubles(seen: SpanningCluster, node: str | None = None) -> None:
    """Refuse a cluster of which hosts have a node of one name: two controllers made it at the same moment.

    Raises:
        UsageError: They have, of this name if one is said.
    """
    homes: dict[str, dict[str, str]] = {}
    for host, part in seen.parts.items():
        for row in part.rows:
            homes.setdefault(row.name, {})[host] = seen.machines[host].destination
    for name in homes if node is None else (node,):
        if len(homes.get(name, ())) > 1:
            raise on_several_hosts(name, homes[name])


def _homes_of(node: str, answers: HostAnswers) -> tuple[list[tuple[RemoteMachine, NodeRow]], dict[str, GpuprovError]]:
    """The hosts that have a node of that name, and why others cannot tell."""
    rows, failed = read_each(answers, partial(read_answer, Nodes))
    machines = {answer.machine.name: answer.machine for answer in answers}
    return [(machines[host], row) for host, found in rows.items() for row in found.nodes if row.name == node], failed
