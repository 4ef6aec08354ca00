"""What is done with nodes of hosts: keep jobs away, have their hosts act, tell the other hosts.

That the node which gives work, such as that of Slurm's controller, is on a third host makes no difference: nodes that
are about to leave are taken out of service there first, and jobs are looked for there.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.names import fold
from gpuprov.core.outcome import Outcome
from gpuprov.fleet.done import Done
from gpuprov.fleet.find_hosted import lines_of
from gpuprov.fleet.hosted_cluster import untold_hosts
from gpuprov.fleet.out_of_service import OutOfServiceThere
from gpuprov.fleet.ready import wait_ready_there
from gpuprov.lifecycle.leaving import JobsPolicy
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import read_each
from gpuprov.roles.registry import role_of
from gpuprov.shapes.base import changed
from gpuprov.shapes.orders import TellOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.found_nodes import FoundNodes
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import Hosts
    from gpuprov.shapes.orders import NodesOrder
    from gpuprov.shapes.whole import WholeCluster

_LEAVING: Final = ("stop", "rm", "restore")  # a snapshot at most pauses a node: its own host looks for jobs
_LOST: Final = ("rm", "restore")


def change_nodes_there(found: FoundNodes, order: NodesOrder, hosts: Hosts, *, reporter: Reporter) -> Done:
    """Do it on the hosts of the nodes, side by side.

    Raises:
        GpuprovError: The host of the node that gives work refuses, or does not answer; nothing was changed.
    """
    if found.cluster is None:
        return Done(outcome=Outcome())
    work = _Work(found.cluster, found, order, hosts, reporter)
    work.refuse()
    out = work.take_out()
    try:
        work.act(out=out)
        if order.act == "rm":
            work.tell(out=out)
        elif order.act == "start":
            work.wait_ready()
    finally:
        if out:
            work.put_back()
    untold = untold_hosts(found.cluster) if order.act == "rm" else {}
    return Done(
        outcome=Outcome(changed=tuple(work.changed)),
        failed={**untold, **work.failed},
        asked=len(found.cluster.machines) if order.act == "rm" else len(work.homes),
        lack="hosts did not do their part",
    )


class _Work:
    """What is done for one command, step by step."""

    def __init__(
        self, seen: SpanningCluster, found: FoundNodes, order: NodesOrder, hosts: Hosts, reporter: Reporter
    ) -> None:
        self.changed: list[str] = []
        self.failed: dict[str, GpuprovError] = {}
        self.homes = list(dict.fromkeys(found.homes.values()))
        self._seen, self._found, self._order, self._hosts, self._reporter = seen, found, order, hosts, reporter
        self._heard = False  # whether the hosts have said what became of the nodes
        self._spans = bool(seen.spec and seen.spec.hosts)
        self._there = OutOfServiceThere(seen, hosts, reporter)
        self._controller = self._there.home if self._spans else ""

    @property
    def _gone(self) -> set[str]:
        """Nodes whose hosts have done what they were to do."""
        return {node for node, home in self._found.homes.items() if home not in self.failed}

    def refuse(self) -> None:
        """Refuse to remove the node that others need on other hosts; its own host knows only its own nodes."""
        spec, force = self._seen.spec, self._order.force
        if self._order.act != "rm" or spec is None or not self._spans or force:
            return
        names = self._found.homes
        role = role_of(spec.nodes.role)
        staying = [one.name for one in self._seen.whole.members if one.role == role.name and one.name not in names]
        for controller in role.controller_names(spec) if staying else ():
            if controller not in names:
                continue
            raise UsageError(
                f"{controller} has the {role.title} service of cluster {spec.name}"
                + ("" if controller == role.controller_name(spec) else ", as the backup that its spec names"),
                evidence=f"its other nodes: {fold(staying)}",
                fix=f"remove the whole cluster: gpuprov cluster down {spec.name}",
            )

    def take_out(self) -> bool:
        """Take the nodes out of service where the controller is on another host; returns whether that was done."""
        if self._order.act not in _LEAVING or not self._spans or self.homes == [self._controller]:
            return False
        nodes = [row for row in self._seen.rows if row.name in self._found.homes]
        if not any(role_of(row.role).has_services for row in nodes):
            return False
        policy = JobsPolicy(force=self._order.force, drain_s=self._order.drain_s)
        return self._there.take([row.name for row in nodes], policy, lost=self._order.act in _LOST)

    def act(self, *, out: bool) -> None:
        """Have each host do it with its own nodes; if they are out of service, the other hosts learn it meanwhile."""
        whole = self._seen.whole.without(self._found.homes) if out and self._order.act == "rm" else None
        order = changed(self._order, cluster=self._seen.name, whole=whole)
        order = changed(order, drain_s=None) if out else order
        requests = {
            self._seen.machines[host]: MemberRequest(order=changed(order, nodes=self._found.on(host)))
            for host in self.homes
        }
        if whole:
            requests |= self._tellings(whole, [host for host in self._seen.parts if host not in self.homes])
        self._do(requests)

    def tell(self, *, out: bool) -> None:
        """Have all hosts know which nodes are left, unless they do."""
        if not self._spans or not self._gone or (out and not self.failed):
            return
        whole = self._seen.whole.without(self._gone)
        if out:  # some hosts know already that nodes were to go which did not
            whole = changed(whole, serial=whole.serial + 1)
        self._do(self._tellings(whole, list(self._seen.parts)))

    def wait_ready(self) -> None:
        """Wait until started nodes take work."""
        if self._spans and self._gone and self.homes != [self._controller]:
            self.changed += wait_ready_there(self._seen, sorted(self._gone), self._hosts, self._reporter)

    def put_back(self) -> None:
        """Let the nodes that are still there take jobs again."""
        verb, names = self._order.act, {*self._found.homes}
        done = self._gone if self._heard else set()  # after Ctrl-C nobody knows
        left = sorted(names - done if verb == "rm" else names)
        off = done if verb == "stop" else {row.name for row in self._seen.rows if row.status == "stopped"}
        stopped = [name for name in left if name in off]
        self._there.put_back(running=[name for name in left if name not in stopped], stopped=stopped)

    def _tellings(self, whole: WholeCluster, to: Sequence[str]) -> dict[RemoteMachine, MemberRequest]:
        request = MemberRequest(order=TellOrder(cluster=self._seen.name, whole=whole))
        return {self._seen.machines[host]: request for host in to}

    def _do(self, requests: Mapping[RemoteMachine, MemberRequest]) -> None:
        done, failed = read_each(self._hosts.work(requests), lines_of)
        self.changed += chain.from_iterable(done.values())
        self.failed |= {host: error for host, error in failed.items() if host not in self.failed}
        self._heard = True
