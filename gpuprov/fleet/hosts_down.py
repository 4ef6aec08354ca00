"""Remove a cluster that spans hosts: on the host that knows its jobs first, then on the others at once."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from gpuprov.cluster.lost_nodes import lost_nodes_line
from gpuprov.core.errors import PartDone, Unreachable, UsageError
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import AGAIN
from gpuprov.fleet.done import Done
from gpuprov.fleet.find_hosted import lines_of
from gpuprov.fleet.hosted_cluster import host_of_controller
from gpuprov.lifecycle.cluster_down import DownLosses
from gpuprov.link.answers import read_answer
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import failure_of, read_each
from gpuprov.shapes.base import changed
from gpuprov.shapes.members import HostLosses
from gpuprov.shapes.orders import DownOrder, LossesOrder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.errors import GpuprovError
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.link.hosts import Hosts


def foresee_over_hosts(seen: SpanningCluster, hosts: Hosts, policy: JobsPolicy, *, look_inside: bool) -> DownLosses:
    """What `down_over_hosts` would remove and end; of hosts that do not answer, which nodes; changes nothing."""
    first = host_of_controller(seen)
    order = LossesOrder(cluster=seen.name, force=policy.force, drain_s=policy.drain_s, look_inside=look_inside)
    requests = {
        seen.machines[host]: MemberRequest(order=changed(order, agreed=host != first and first in seen.parts))
        for host in seen.parts
    }
    told, _ = read_each(hosts.ask(requests), partial(read_answer, HostLosses))
    lines: list[str] = []
    for host in seen.machines:
        names = [row.name for row in seen.rows if row.host == host]
        lines += told[host].lines if host in told else [f"{host}: {lost_nodes_line(names)}"] if names else ()
    busy = next((one.busy for one in told.values() if one.busy), None)
    refusal = UsageError(busy.what, evidence=busy.evidence, fix=busy.fix) if busy else None
    return DownLosses(lines=tuple(dict.fromkeys(lines)), busy=refusal)


def down_over_hosts(seen: SpanningCluster, hosts: Hosts, policy: JobsPolicy) -> Done:
    """Remove a cluster from all its hosts that answer.

    The host of the node that gives work is first, and alone: it knows the jobs of all nodes, and where it refuses
    nothing is removed anywhere.

    Raises:
        PartDone: The connection to that host was lost, so nobody can tell what was removed there.
        GpuprovError: That host refuses.
    """
    order = DownOrder(
        cluster=seen.name,
        force=policy.force,
        drain_s=policy.drain_s,
    )
    first = host_of_controller(seen)
    others = [host for host in seen.parts if host != first]
    lines: list[str] = []
    failed = dict(seen.failed)
    if first in seen.parts:
        (answer,) = hosts.work({seen.machines[first]: MemberRequest(order=order)})
        if answer.document is None:
            raise _first_failed(failure_of(answer), first, others)
        lines += lines_of(answer.document, first)
        order = changed(order, force=True, agreed=True)
    request = MemberRequest(order=order)
    done, refused = read_each(hosts.work({seen.machines[host]: request for host in others}), lines_of)
    lines += chain.from_iterable(done.values())
    failed |= refused
    return Done(
        outcome=Outcome(changed=tuple(lines)),
        failed=failed,
        asked=len(seen.machines),
        lack="what is on these hosts is still there",
    )


def _first_failed(error: GpuprovError, first: str, others: Sequence[str]) -> GpuprovError:
    """Its refusal; where it was lost, also what became of the others."""
    if not isinstance(error, Unreachable) or not others:
        return error
    return PartDone(
        f"what was removed on {first} is not known, and nothing was removed on {', '.join(others)}",
        evidence=f"{error.what}: {error.evidence}",
        fix=error.fix if AGAIN in error.fix else f"{error.fix}; then {AGAIN}",
    )
