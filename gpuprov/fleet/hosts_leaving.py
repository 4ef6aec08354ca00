"""Hosts that a spec does not name any more: what is on them is removed, and their nodes are made on the other hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import fold
from gpuprov.core.silence_limit import QUESTION_S, scaled_limit_s
from gpuprov.fleet.find_hosted import lines_of, machine_of
from gpuprov.link.address import RemoteMachine
from gpuprov.link.answers import read_answer
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import failure_of, told_by
from gpuprov.roles.registry import role_of
from gpuprov.shapes.members import PartOfHost
from gpuprov.shapes.orders import DownOrder, PartOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.link.hosts import Hosts
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.whole import WholeCluster


@dataclass(frozen=True, kw_only=True)
class LeavingHosts:
    """Hosts that have a part of the cluster and are not in its spec.

    Attributes:
        nodes: By host, its nodes.
        machines: The way to those that answer.
    """

    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    machines: Mapping[str, RemoteMachine] = field(default_factory=dict)

    @property
    def lines(self) -> dict[str, tuple[str, ...]]:
        """What is to be done on each: one line for each change."""
        ends = ("remove the networks and keys of the cluster",)
        return {host: (*(f"remove node {node}" for node in self.nodes[host]), *ends) for host in self.machines}

    def without(self, whole: WholeCluster) -> WholeCluster:
        """The nodes of all other hosts."""
        for host in self.nodes:
            whole = whole.without_host(host)
        return whole


def find_leaving(
    spec: ClusterSpec, seen: SpanningCluster, known: Mapping[str, RemoteMachine], hosts: Hosts, *, reporter: Reporter
) -> LeavingHosts:
    """The hosts that are left out; changes nothing.

    Raises:
        UsageError: One has the node that others need, or does not answer and was not forgotten.
    """
    named = {host.name for host in spec.hosts}
    recorded = {host.name: host for host in seen.spec.hosts} if seen.spec else {}
    left = [name for name in dict.fromkeys((*recorded, *seen.whole.homes.values())) if name and name not in named]
    if not left:
        return LeavingHosts()
    nodes = {host: tuple(member.name for member in seen.whole.on(host)) for host in left}
    _refuse_controller(spec, seen, nodes)
    machines = {
        host: known.get(host)
        or (machine_of(recorded[host], known) if host in recorded else RemoteMachine(name=host, address=host))
        for host in left
    }
    question = MemberRequest(order=PartOrder(cluster=spec.name), total_s=scaled_limit_s(QUESTION_S))
    there = {}
    for answer in hosts.ask(dict.fromkeys(machines.values(), question)):
        host, error = answer.machine.name, failure_of(answer) if answer.document is None else None
        if error is None:
            if read_answer(PartOfHost, told_by(answer), host).exists:
                there[host] = answer.machine
        elif host in known and nodes[host]:
            raise UsageError(
                f"{host} still has nodes of cluster {spec.name}, is not in hosts, and does not answer",
                evidence=f"{fold(list(nodes[host]))}; {error.what}: {error.evidence}",
                fix=f"start {host}; or give its nodes up: gpuprov host remove {host} --forget; "
                "then run the same command again",
            )
        else:
            kept = f" with {fold(list(nodes[host]))}" if nodes[host] else ""
            reporter.warn(
                f"{host} is left out{kept}: it is not in hosts and does not answer; what is there stays there"
            )
    return LeavingHosts(nodes=nodes, machines=there)


def _refuse_controller(spec: ClusterSpec, seen: SpanningCluster, nodes: Mapping[str, tuple[str, ...]]) -> None:
    role = role_of(spec.nodes.role)
    controller = role.controller_name(spec)
    home = next((host for host, names in nodes.items() if controller in names), None)
    if home is not None:
        raise UsageError(
            f"{home} cannot be taken out of hosts: the other nodes of cluster {seen.name} need its node {controller}",
            evidence=f"{controller} runs the {role.title} service, with its queue",
            fix=f"keep {home} in hosts; or remove the whole cluster: gpuprov cluster down {seen.name}",
        )


def remove_leaving(leaving: LeavingHosts, cluster: str, policy: JobsPolicy, hosts: Hosts) -> list[str]:
    """Remove all that the cluster has on them.

    Args:
        policy: What becomes of jobs that are found there still.
        hosts: The way to them.

    Raises:
        GpuprovError: A host refuses, or failed.
    """
    order = DownOrder(cluster=cluster, force=policy.force, drain_s=policy.drain_s, goes_on=True)
    request = MemberRequest(order=order)
    changed: list[str] = []
    for answer in hosts.work(dict.fromkeys(leaving.machines.values(), request)):
        changed += lines_of(told_by(answer), answer.machine.name)
    return changed
