"""Keep jobs from nodes that are about to leave, where the node that gives work is on another host than they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gpuprov.core.names import fold
from gpuprov.documents.member_answers import strictly
from gpuprov.host.remote.ask import MemberRequest
from gpuprov.host.remote.several import failure_of
from gpuprov.serving.member_nodes import HoldFoundOrder, HoldOrder, ReleaseOrder
from gpuprov.spanning.parts.over_hosts import host_of_head

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.host.remote.hosts import Hosts
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.planes.across.leaving import JobsPolicy
    from gpuprov.spanning.parts.over_hosts import SpanningCluster


@dataclass(frozen=True, kw_only=True)
class HeldThere:
    """Nodes that a host holds since it was asked where they are.

    Attributes:
        machine: The way to the host.
        cluster: Theirs.
        nodes: Their names; none where it holds none.
    """

    machine: RemoteMachine
    cluster: str
    nodes: tuple[str, ...]


def hold_where_found(names: Sequence[str], policy: JobsPolicy, *, lost: bool) -> MemberRequest:
    """What hosts are asked after `find` about nodes that are about to leave; `held_there` reads what they say."""
    order = HoldFoundOrder(nodes=list(names), lost=lost, force=policy.force, drain_s=_seconds(policy))
    return MemberRequest(verb="hold-found", document=asdict(order))


def held_there(told: Mapping[str, Any], machine: RemoteMachine) -> HeldThere:
    """What a host holds now.

    Raises:
        HostNotReady: It does not say that.
    """

    def read() -> HeldThere:
        cluster, nodes = told["cluster"], told["held"]
        if not (isinstance(cluster, str) and isinstance(nodes, list) and all(isinstance(node, str) for node in nodes)):
            raise ValueError("it does not say what it holds")
        return HeldThere(machine=machine, cluster=cluster, nodes=tuple(nodes))

    return strictly(read, machine.name)


def release_there(held: HeldThere, hosts: Hosts, reporter: Reporter, *, stopped: Sequence[str] = ()) -> None:
    """Let nodes that a host holds take jobs again, if there are any."""
    if not held.nodes:
        return
    running = [name for name in held.nodes if name not in stopped]
    order = ReleaseOrder(cluster=held.cluster, running=running, stopped=list(stopped))
    (answer,) = hosts.work({held.machine: MemberRequest(verb="release", document=asdict(order))})
    if answer.document is None:
        error, names = failure_of(answer), fold(list(held.nodes))
        reporter.warn(f"could not resume {names}: {error.what}: {error.evidence}; to resume them: gpuprov cluster up")


class HoldThere:
    """What keeps work from nodes of several hosts.

    Args:
        seen: The cluster.
        hosts: The way to its hosts.
        reporter: Is told what cannot be done.
    """

    def __init__(self, seen: SpanningCluster, hosts: Hosts, reporter: Reporter) -> None:
        self._seen, self._hosts, self._reporter = seen, hosts, reporter
        self.home = host_of_head(seen)

    def take(self, names: Sequence[str], policy: JobsPolicy, *, lost: bool) -> bool:
        """Hold them, wait for their jobs as the policy says, and refuse if some run; whether anybody could be asked.

        Raises:
            GpuprovError: The host of the node that gives work refuses; the nodes take jobs again.
        """
        seen = self._seen
        if self.home not in seen.parts:
            self._reporter.warn(
                f"{fold(list(names))} cannot be drained: {self.home} with the node that starts jobs does not answer; "
                "jobs are looked for on the nodes themselves"
            )
            return False
        stopped = {row.name for row in seen.rows if row.status == "stopped"}
        homes = seen.whole.homes
        order = HoldOrder(
            cluster=seen.name,
            nodes=list(names),
            lost=list(names) if lost else [],
            elsewhere=[name for name in names if homes.get(name) != self.home and name not in stopped],
            force=policy.force,
            drain_s=_seconds(policy),
        )
        request = MemberRequest(verb="hold", document=asdict(order))
        (answer,) = self._hosts.work({seen.machines[self.home]: request})
        if answer.document is None:
            raise failure_of(answer)
        return True

    def release(self, *, running: Sequence[str], stopped: Sequence[str] = ()) -> None:
        """Let those that are still there take jobs again."""
        machine = self._seen.machines[self.home]
        held = HeldThere(machine=machine, cluster=self._seen.name, nodes=(*running, *stopped))
        release_there(held, self._hosts, self._reporter, stopped=stopped)


def _seconds(policy: JobsPolicy) -> float:
    return policy.drain_s if policy.drain_s is not None else -1.0
