"""Verbs on nodes that are on other hosts: find them, keep jobs away, have their hosts act, tell the other hosts.

That the node which gives work, such as that of Slurm's controller, is on a third host makes no difference: nodes that
are about to leave are held there first, and jobs are looked for there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.core.names import fold
from gpuprov.core.outcome import Outcome
from gpuprov.core.silence_limit import QUESTION_S, scaled_limit_s
from gpuprov.fleet.cluster_records import ClusterRecords
from gpuprov.fleet.hold import HoldThere
from gpuprov.fleet.hosted_cluster import lines_of, machine_of, put_together, several_have, untold_hosts
from gpuprov.fleet.ready import wait_ready_there
from gpuprov.host.remote.answers import read_answer
from gpuprov.host.remote.ask import MemberRequest
from gpuprov.host.remote.several import part_error, read_each
from gpuprov.planes.registry import plane_of
from gpuprov.shapes.base import changed, raw
from gpuprov.shapes.members import FoundParts, PartOfHost
from gpuprov.shapes.orders import FindOrder, NodesOrder, TellOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.host.remote.hosts import HostAnswers, Hosts
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.planes.across.leaving import JobsPolicy
    from gpuprov.shapes.base import Told
    from gpuprov.shapes.orders import Act
    from gpuprov.shapes.whole import WholeCluster

_LEAVING: Final = ("stop", "rm", "restore")  # a snapshot at most pauses a node: its own host looks for jobs
_LOST: Final = ("rm", "restore")


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


@dataclass(frozen=True, kw_only=True)
class NodesChange:
    """What is to be done with them.

    Attributes:
        verb: `start`, `stop`, `rm`, `snapshot` or `restore`.
        label: Of the snapshot.
    """

    verb: Act
    policy: JobsPolicy
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class NodesChanged:
    """What was done, and why hosts did not do it."""

    outcome: Outcome
    failed: Mapping[str, GpuprovError]
    asked: int


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


def change_nodes_there(found: FoundNodes, change: NodesChange, hosts: Hosts, *, reporter: Reporter) -> NodesChanged:
    """Do it on the hosts of the nodes, side by side.

    Raises:
        GpuprovError: The host of the node that gives work refuses, or does not answer; nothing was changed.
    """
    if found.cluster is None:
        return NodesChanged(outcome=Outcome(), failed={}, asked=0)
    work = _Work(found.cluster, found, change, hosts, reporter)
    work.refuse()
    held = work.hold()
    try:
        work.act(held=held)
        if change.verb == "rm":
            work.tell(held=held)
        elif change.verb == "start":
            work.wait_ready()
    finally:
        if held:
            work.release()
    untold = untold_hosts(found.cluster) if change.verb == "rm" else {}
    asked = len(found.cluster.machines) if change.verb == "rm" else len(work.homes)
    outcome = Outcome(changed=tuple(work.changed))
    return NodesChanged(outcome=outcome, failed={**untold, **work.failed}, asked=asked)


class _Work:
    """What is done for one command, step by step."""

    def __init__(
        self, seen: SpanningCluster, found: FoundNodes, change: NodesChange, hosts: Hosts, reporter: Reporter
    ) -> None:
        self.changed: list[str] = []
        self.failed: dict[str, GpuprovError] = {}
        self.homes = list(dict.fromkeys(found.homes.values()))
        self._seen, self._found, self._change, self._hosts, self._reporter = seen, found, change, hosts, reporter
        self._heard = False  # whether the hosts have said what became of the nodes
        self._spans = bool(seen.spec and seen.spec.hosts)
        self._there = HoldThere(seen, hosts, reporter)
        self._head = self._there.home if self._spans else ""

    @property
    def _gone(self) -> set[str]:
        """Nodes whose hosts have done what they were to do."""
        return {node for node, home in self._found.homes.items() if home not in self.failed}

    def refuse(self) -> None:
        """Refuse to remove the node that others need on other hosts; its own host knows only its own nodes."""
        spec, force = self._seen.spec, self._change.policy.force
        if self._change.verb != "rm" or spec is None or not self._spans or force:
            return
        names = self._found.homes
        plane = plane_of(spec.nodes.role)
        staying = [one.name for one in self._seen.whole.members if one.role == plane.name and one.name not in names]
        for head in plane.head_names(spec) if staying else ():
            if head not in names:
                continue
            raise UsageError(
                f"{head} has the {plane.title} service of cluster {spec.name}"
                + ("" if head == plane.head_name(spec) else ", as the backup that its spec names"),
                evidence=f"its other nodes: {fold(staying)}",
                fix=f"remove the whole cluster: gpuprov cluster down {spec.name}",
            )

    def hold(self) -> bool:
        """Hold the nodes where the node that gives work is elsewhere; returns whether that was to be done, and was."""
        if self._change.verb not in _LEAVING or not self._spans or self.homes == [self._head]:
            return False
        nodes = [row for row in self._seen.rows if row.name in self._found.homes]
        if not any(plane_of(row.role).has_services for row in nodes):
            return False
        lost = self._change.verb in _LOST
        return self._there.take([row.name for row in nodes], self._change.policy, lost=lost)

    def act(self, *, held: bool) -> None:
        """Have each host do it with its own nodes; where they are held, the other hosts learn of it meanwhile."""
        change = self._change
        policy = replace(change.policy, drain_s=None) if held else change.policy
        whole = self._seen.whole.without(self._found.homes) if held and change.verb == "rm" else None
        requests = {
            self._seen.machines[host]: MemberRequest(
                order=NodesOrder(
                    act=change.verb,
                    cluster=self._seen.name,
                    nodes=self._found.on(host),
                    label=change.label,
                    whole=whole,
                    force=policy.force,
                    drain_s=policy.drain_s,
                )
            )
            for host in self.homes
        }
        if whole:
            requests |= self._tellings(whole, [host for host in self._seen.parts if host not in self.homes])
        self._do(requests)

    def tell(self, *, held: bool) -> None:
        """Have all hosts know which nodes are left, unless they do."""
        if not self._spans or not self._gone or (held and not self.failed):
            return
        whole = self._seen.whole.without(self._gone)
        if held:  # some hosts know already that nodes were to go which did not
            whole = changed(whole, serial=whole.serial + 1)
        self._do(self._tellings(whole, list(self._seen.parts)))

    def wait_ready(self) -> None:
        """Wait until started nodes take work."""
        if self._spans and self._gone and self.homes != [self._head]:
            self.changed += wait_ready_there(self._seen, sorted(self._gone), self._hosts, self._reporter)

    def release(self) -> None:
        """Let the nodes that are still there take jobs again."""
        verb, names = self._change.verb, {*self._found.homes}
        done = self._gone if self._heard else set()  # after Ctrl-C nobody knows
        left = sorted(names - done if verb == "rm" else names)
        off = done if verb == "stop" else {row.name for row in self._seen.rows if row.status == "stopped"}
        stopped = [name for name in left if name in off]
        self._there.release(running=[name for name in left if name not in stopped], stopped=stopped)

    def _tellings(self, whole: WholeCluster, to: Sequence[str]) -> dict[RemoteMachine, MemberRequest]:
        request = MemberRequest(order=TellOrder(cluster=self._seen.name, whole=whole))
        return {self._seen.machines[host]: request for host in to}

    def _do(self, requests: Mapping[RemoteMachine, MemberRequest]) -> None:
        done, failed = read_each(self._hosts.work(requests), lines_of)
        self.changed += chain.from_iterable(done.values())
        self.failed |= {host: error for host, error in failed.items() if host not in self.failed}
        self._heard = True


def refuse_absent(names: Sequence[str], found: FoundNodes, known: Mapping[str, RemoteMachine]) -> None:
    """Refuse names that no host has.

    Raises:
        UsageError: There are some.
    """
    absent = [name for name in names if name not in found.homes]
    if absent:
        raise UsageError(
            f"there is no {_nodes(absent)}",
            evidence=f"neither here nor on {', '.join(known) or 'another host'}",
            fix="list the nodes: gpuprov list",
        )


def _nodes(names: Sequence[str]) -> str:
    return f"node {fold(list(names))}"
