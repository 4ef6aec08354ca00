"""Clusters that span hosts: find one, and see what its hosts have of it; every host is asked side by side."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.here_alone import is_here_alone
from gpuprov.cluster.placement import on_several_hosts
from gpuprov.cluster.whole import newest_whole
from gpuprov.core.errors import GpuprovError, HostNotReady, NoEngine, PartDone, Unreachable, UsageError
from gpuprov.core.silence_limit import QUESTION_S, scaled_limit_s
from gpuprov.fleet.cluster_records import ClusterRecords
from gpuprov.fleet.part.told_part import read_host_part
from gpuprov.host.remote.answers import read_answer
from gpuprov.host.remote.ask import MemberRequest
from gpuprov.host.remote.machine import RemoteMachine
from gpuprov.host.remote.several import away_since, part_error, read_each
from gpuprov.planes.registry import plane_of
from gpuprov.shapes.base import changed
from gpuprov.shapes.nodes import NodeRow, Nodes, RowStatus
from gpuprov.shapes.orders import ListOrder, PartOrder
from gpuprov.shapes.outcome import Changes
from gpuprov.spec.shared_folder import folder_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.fleet.fleet import Fleet
    from gpuprov.fleet.part.host_part import HostPart
    from gpuprov.host.remote.hosts import HostAnswers, Hosts
    from gpuprov.host.remote.several import HostAnswer
    from gpuprov.shapes.base import Told
    from gpuprov.shapes.cluster_spec import ClusterSpec, HostSpec
    from gpuprov.shapes.whole import Member, WholeCluster


AWAY: Final[RowStatus] = "unreachable"  # the status of nodes on a host that does not answer
HERE_ALONE: Final = "for a cluster on this machine alone, add --engine ENGINE"


@dataclass(frozen=True, kw_only=True)
class SpanningCluster:
    """A cluster that spans hosts, as its hosts say.

    Attributes:
        spec: As recorded on the host that has the newest state; None where none has any.
        whole: The newest state of the nodes of all hosts.
        machines: Its hosts, those too that do not answer, by their names in it.
        parts: What hosts that answer have of it.
        failed: Why the others do not.
        away: Since when hosts are unreachable.
        here_alone: Whether this machine alone was asked, in process.
    """

    name: str
    spec: ClusterSpec | None
    whole: WholeCluster
    machines: Mapping[str, RemoteMachine]
    parts: Mapping[str, HostPart]
    failed: Mapping[str, GpuprovError] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)
    here_alone: bool = False

    @property
    def spans(self) -> bool:
        """Whether it is one over hosts, and not what this machine alone has of a cluster."""
        return bool(self.spec and self.spec.hosts) and not self.here_alone

    @property
    def shared_folder(self) -> str:
        """The folder of its hosts that its nodes share; empty for none."""
        if self.here_alone:
            return next(iter(self.parts.values())).shared_folder
        return folder_of(self.spec) if self.spec else ""

    @property
    def rows(self) -> tuple[NodeRow, ...]:
        """Every node of all hosts, those too whose host does not answer, by name."""
        words = {node: word for part in self.parts.values() for node, word in part.words.items()}
        rows = [with_word(row, words) for part in self.parts.values() for row in part.rows]
        there = {row.name for row in rows}
        rows += [self._away_row(member) for member in self.whole.members if member.name not in there]
        return tuple(sorted(rows, key=lambda row: row.name))

    def _away_row(self, member: Member) -> NodeRow:
        since = self.away.get(member.host, "")
        if member.host in self.parts:
            health = "missing: gpuprov cluster up"
        else:
            health = f"{member.host} is unreachable since {since}" if since else f"{member.host} does not answer"
        there = self.spec.host(member.host) if self.spec else None
        return NodeRow(
            name=member.name,
            host=member.host,
            cluster=self.name,
            engine=(there.engine if there else None) or (self.spec.engine if self.spec else ""),
            role=member.role,
            status="missing" if member.host in self.parts else AWAY,
            address="",
            private_address=member.private_address,
            gpus=member.gpus,
            devices=member.devices,
            sharing=self.spec.gpus.sharing if self.spec and member.gpus else "",
            simulated=member.simulated,
            work="",
            health=health,
            image="",
        )


def with_word(row: NodeRow, words: Mapping[str, str]) -> NodeRow:
    """A node with the word that its plane on another host has for it."""
    if row.work or row.name not in words:
        return row
    word = words[row.name]
    plane = plane_of(row.role)
    bad = row.is_well and not plane.is_ready(word)
    return changed(row, work=word, health=f"{plane.title} reports {word}: gpuprov cluster up" if bad else row.health)


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

    As when `cluster down` was cut off: what is left of a cluster is on the host that is away.

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


def find_over_hosts(fleet: Fleet, name: str, *, disks: bool = False) -> SpanningCluster | None:
    """The same as this machine sees it; a cluster of that name on this machine alone comes first.

    Where no hosts were added, or this machine alone is meant, nobody is asked.
    """
    if not fleet.others or is_here_alone(fleet.here, name):
        return None
    return find_spanning(name, fleet.others, fleet.connect(), instead=HERE_ALONE, disks=disks)


def require_spanning(name: str, known: Mapping[str, RemoteMachine], hosts: Hosts) -> SpanningCluster:
    """The same; it is there.

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

    Hosts that were away when it was `found`, a moment ago, are not asked.
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


def untold_hosts(seen: SpanningCluster) -> dict[str, GpuprovError]:
    """The hosts of the cluster that do not answer: their nodes do not learn what changes."""
    away = Unreachable(
        "hosts are unreachable", evidence="they did not answer when they were last asked", fix="gpuprov host list"
    )
    return {host: seen.failed.get(host, away) for host in seen.machines if host not in seen.parts}


def head_of(seen: SpanningCluster) -> str | None:
    """The node that gives work now: the usual one, unless that is away and one that takes its place is not.

    None where the nodes need none.
    """
    heads = plane_of(seen.spec.nodes.role).head_names(seen.spec) if seen.spec else ()
    running = {row.name for part in seen.parts.values() for row in part.rows if row.status == "running"}
    return next((head for head in heads if head in running), next(iter(heads), None))


def host_of_head(seen: SpanningCluster) -> str:
    """The host of the node that gives work; any host where no node does; empty where none answers."""
    return seen.whole.homes.get(head_of(seen) or "", next(iter(seen.parts), ""))


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
    raise error or UsageError(
        f"there is no node {node}",
        evidence=f"neither here nor on {', '.join(machine.name for machine in known.values())}",
        fix="list the nodes: gpuprov list",
    )


def several_have(node: str, machines: Sequence[RemoteMachine]) -> UsageError:
    """The error where nodes on several hosts, perhaps of several clusters, have the name that was typed."""
    ways = [f"ssh {machine.destination} gpuprov show {node}" for machine in machines]
    return UsageError(
        f"more than one host has a node {node}",
        evidence=", ".join(machine.name for machine in machines),
        fix=f"run the command on the host of the one that is meant: {', or '.join(ways)}",
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
