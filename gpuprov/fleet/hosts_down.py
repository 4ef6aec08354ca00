"""Remove a cluster that spans hosts: on the host that knows its jobs first, then on the others at once."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from gpuprov.core.errors import PartDone, Unreachable
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import AGAIN
from gpuprov.fleet.done import Done
from gpuprov.fleet.find_hosted import lines_of
from gpuprov.fleet.hosted_cluster import host_of_controller
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import failure_of, read_each
from gpuprov.shapes.base import changed
from gpuprov.shapes.orders import DownOrder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.errors import GpuprovError
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.link.hosts import Hosts


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
