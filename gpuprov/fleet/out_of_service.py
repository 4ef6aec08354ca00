"""Keep jobs from nodes that are about to leave, where the node that gives work is on another host than they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import Unreachable
from gpuprov.core.names import fold
from gpuprov.core.silence_limit import QUESTION_S, scaled_limit_s
from gpuprov.fleet.hosted_cluster import host_of_controller
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import failure_of, told_by
from gpuprov.shapes.orders import InServiceOrder, OutOfServiceOrder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.link.hosts import Hosts


class OutOfServiceThere:
    """Nodes of several hosts that are out of service.

    Args:
        seen: The cluster.
        hosts: The way to its hosts.
        reporter: Is told what cannot be done.
    """

    def __init__(self, seen: SpanningCluster, hosts: Hosts, reporter: Reporter) -> None:
        self._seen, self._hosts, self._reporter = seen, hosts, reporter
        self.home = host_of_controller(seen)

    def take(self, names: Sequence[str], policy: JobsPolicy, *, lost: bool) -> bool:
        """Take them out, wait for their jobs as the policy says, refuse if some run; False if nobody could be asked.

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
        order = OutOfServiceOrder(
            cluster=seen.name,
            nodes=tuple(names),
            lost=tuple(names) if lost else (),
            elsewhere=tuple(name for name in names if homes.get(name) != self.home and name not in stopped),
            force=policy.force,
            drain_s=policy.drain_s,
        )
        request = MemberRequest(order=order)
        try:
            (answer,) = self._hosts.work({seen.machines[self.home]: request})
            told_by(answer)
        except (KeyboardInterrupt, Unreachable):  # it may have taken them out, and nobody has heard that
            self.put_back(running=[name for name in names if name not in stopped])
            raise
        return True

    def put_back(self, *, running: Sequence[str], stopped: Sequence[str] = ()) -> None:
        """Let those that are still there take jobs again."""
        if not running and not stopped:
            return
        machine, why = self._seen.machines[self.home], f"{self.home} does not answer"
        if not self._hosts.is_away(machine):
            order = InServiceOrder(cluster=self._seen.name, running=tuple(running), stopped=tuple(stopped))
            request = MemberRequest(order=order, total_s=scaled_limit_s(QUESTION_S))
            (answer,) = self._hosts.work({machine: request})
            if answer.document is not None:
                return
            error = failure_of(answer)
            why = f"{error.what}: {error.evidence}"
        self._reporter.warn(f"could not resume {fold([*running, *stopped])}: {why}; to resume them: gpuprov cluster up")
