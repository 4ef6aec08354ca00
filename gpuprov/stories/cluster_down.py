"""`cluster down`: say what would be lost, then have the hosts of a cluster remove it.

Over hosts, the one that knows the jobs is first (fleet/hosts_down.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.retry_after_wait import act_on_cluster
from gpuprov.core.errors import UsageError
from gpuprov.core.outcome import Outcome
from gpuprov.fleet.clusters import explain_missing
from gpuprov.fleet.done import Done
from gpuprov.fleet.here import find_over_hosts
from gpuprov.fleet.hosts_down import down_over_hosts, foresee_over_hosts
from gpuprov.lifecycle.cluster_down import cluster_down, foresee_losses

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.lifecycle.cluster_down import DownLosses
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.machine.base import Host

    Agree = Callable[[DownLosses], None]


def take_down(
    fleet: Fleet,
    name: str,
    policy: JobsPolicy,
    *,
    purge: bool = False,
    agree: Agree | None = None,
    look_inside: bool = False,
) -> Done:
    """Remove a cluster from all its hosts that answer.

    Args:
        fleet: The hosts.
        name: The cluster.
        policy: What becomes of jobs.
        purge: Whether the folder that the nodes shared goes too.
        agree: Is asked before anything goes, and raises where it is not to; None asks no question.
        look_inside: Whether nodes are asked for programs of people first.

    Raises:
        UsageError: It is not agreed to, or the folder is not gpuprov's to remove; nothing was changed.
        GpuprovError: There are jobs, or the host that knows them does not answer.
    """
    seen = find_over_hosts(fleet, name)
    if seen is not None:
        return _over_hosts(seen, fleet, policy, purge=purge, agree=agree, look_inside=look_inside)
    if not fleet.works_here:  # hosts have said that they have no such cluster
        _note_missing(fleet, name)
        return Done(outcome=Outcome())

    def down(driver: Driver, host: Host) -> Outcome:
        if agree is not None:
            agree(foresee_losses(driver, name, host, policy, purge=purge, look_inside=look_inside))
        return cluster_down(driver, name, host, reporter=fleet.reporter, policy=policy, purge=purge)

    outcome = act_on_cluster(fleet.here, fleet.engine, name, down, reporter=fleet.reporter)
    if not any(line.startswith("removed n") for line in outcome.changed):  # neither a node nor a network was there
        _note_missing(fleet, name)
    return Done(outcome=outcome)


def _note_missing(fleet: Fleet, name: str) -> None:
    missing = explain_missing(fleet, name, verb="gpuprov cluster down")
    if missing is not None:
        fleet.reporter.note(f"{missing.what}; {missing.evidence}")


def _over_hosts(
    seen: SpanningCluster, fleet: Fleet, policy: JobsPolicy, *, purge: bool, agree: Agree | None, look_inside: bool
) -> Done:
    if purge:
        raise UsageError(
            f"no folder is removed with cluster {seen.name}, which spans hosts; nothing was removed",
            evidence=f"its hosts share {seen.shared_folder or 'none'}, "
            "and only folders of gpuprov's own place are removed",
            fix=f"without --purge: gpuprov cluster down {seen.name}",
        )
    hosts = fleet.connect()
    if agree is not None:
        agree(foresee_over_hosts(seen, hosts, policy, look_inside=look_inside))
    return down_over_hosts(seen, hosts, policy)
