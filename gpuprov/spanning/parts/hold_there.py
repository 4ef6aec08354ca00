"""Keep jobs from nodes that are about to leave, where the node that gives work is on another host than they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import TimedOut, Unreachable
from gpuprov.core.names import fold
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.documents.member_answers import strictly
from gpuprov.host.remote.ask import MemberRequest, WorkStopped
from gpuprov.host.remote.several import failure_of
from gpuprov.serving.member_nodes import HoldFoundOrder, HoldOrder, ReleaseOrder
from gpuprov.spanning.parts.over_hosts import QUESTION_S, host_of_head

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.reporter import Reporter
    from gpuprov.host.remote.hosts import Hosts
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.host.remote.several import HostAnswer
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


def hold_where_found(names: Sequence[str], *, lost: bool) -> MemberRequest:
    """What hosts are asked after `find` about nodes that are about to leave; `held_there` reads what they say."""
    order = HoldFoundOrder(nodes=list(names), lost=lost)
    return MemberRequest(verb="hold-found", document=asdict(order), regardless=True)


def refuse_early(refusal: GpuprovError, policy: JobsPolicy) -> None:
    """Say why nodes were not held at once, unless another attempt may go better.

    It may where jobs end or are waited for, which no early one does, and where another host had ended that one.
    """
    if not (policy.force or policy.drain_s is not None or isinstance(refusal, WorkStopped)):
        raise refusal


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
    _release(order, [held.machine], hosts, reporter)


def release_unheard(names: Sequence[str], machines: Sequence[RemoteMachine], hosts: Hosts, reporter: Reporter) -> None:
    """Let nodes take jobs again which one of these hosts may hold: after Ctrl-C, nobody knows."""
    _release(ReleaseOrder(cluster="", running=list(names), stopped=[]), machines, hosts, reporter)


def _release(order: ReleaseOrder, machines: Sequence[RemoteMachine], hosts: Hosts, reporter: Reporter) -> None:
    request = MemberRequest(verb="release", document=asdict(order), total_s=scaled_limit_s(QUESTION_S))
    asked = [machine for machine in machines if not hosts.is_away(machine)]
    failed = [f"{machine.name} does not answer" for machine in machines if machine not in asked]
    for answer in hosts.work(dict.fromkeys(asked, request)):
        if answer.document is None:
            error = failure_of(answer)
            failed.append(f"{error.what}: {error.evidence}")
    names = fold([*order.running, *order.stopped])
    for why in failed:
        reporter.warn(f"could not resume {names}: {why}; to resume them: gpuprov cluster up")


def request_hold(seen: SpanningCluster, names: Sequence[str], policy: JobsPolicy, *, lost: bool) -> MemberRequest:
    """What the host of the node that gives work is asked about nodes that are about to leave."""
    stopped = {row.name for row in seen.rows if row.status == "stopped"}
    homes, home = seen.whole.homes, host_of_head(seen)
    order = HoldOrder(
        cluster=seen.name,
        nodes=list(names),
        lost=list(names) if lost else [],
        elsewhere=[name for name in names if homes.get(name) != home and name not in stopped],
        force=policy.force,
        drain_s=policy.asked_drain_s,
    )
    return MemberRequest(verb="hold", document=asdict(order))


class EarlyHold:
    """Nodes that are held while hosts still plan, for it is foreseen that they leave.

    What is held at the end of its block takes jobs again.

    Args:
        hosts: The way to the host that holds them.
        reporter: Is told what cannot be done.
    """

    def __init__(self, hosts: Hosts, reporter: Reporter) -> None:
        self._hosts, self._reporter = hosts, reporter
        self._foreseen: frozenset[str] = frozenset()
        self._held: HeldThere | None = None
        self._refusal: GpuprovError | None = None

    def foresee(self, seen: SpanningCluster, names: Sequence[str]) -> None:
        """The host of the node that gives work is about to hold these; nobody may hear that it does, after Ctrl-C."""
        self._foreseen = frozenset(names)
        self._held = HeldThere(machine=seen.machines[host_of_head(seen)], cluster=seen.name, nodes=tuple(names))

    def hear(self, answer: HostAnswer) -> None:
        """What that host has answered to the request before, and to this one."""
        self._refusal = (answer.following or answer).error
        if self._refusal and not isinstance(self._refusal, (Unreachable, TimedOut)):  # else it may hold them, unheard
            self._held = None

    def hand_over(self, names: Sequence[str], policy: JobsPolicy) -> bool:
        """Whether exactly these are held; whoever asks is to let them take jobs again.

        Raises:
            GpuprovError: Just these were refused, and the policy does not say to go on.
        """
        if self._foreseen != {*names}:
            return False
        if self._refusal is not None:
            refuse_early(self._refusal, policy)
            return False
        held, self._held = self._held, None
        return held is not None

    def __enter__(self) -> EarlyHold:  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        if self._held is not None:
            release_there(self._held, self._hosts, self._reporter)


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
        (answer,) = self._hosts.work({seen.machines[self.home]: request_hold(seen, names, policy, lost=lost)})
        if answer.document is None:
            raise failure_of(answer)
        return True

    def release(self, *, running: Sequence[str], stopped: Sequence[str] = ()) -> None:
        """Let those that are still there take jobs again."""
        machine = self._seen.machines[self.home]
        held = HeldThere(machine=machine, cluster=self._seen.name, nodes=(*running, *stopped))
        release_there(held, self._hosts, self._reporter, stopped=stopped)
