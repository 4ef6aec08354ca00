"""`verify`: the hosts of a cluster prove their nodes, this machine in process and others over ssh; once, or in rounds.

Nothing is changed, but that a watch has no work begin on nodes of hosts that are unreachable for long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.reporter import Silent
from gpuprov.core.rounds import watch_rounds
from gpuprov.fleet.done import VerifiedHosts
from gpuprov.fleet.here import find_over_hosts, observe_here, open_cluster_here
from gpuprov.lifecycle import verify as one_host
from gpuprov.lifecycle.image_age import find_older, older_notes
from gpuprov.verify.changes import Seen, change_of_cluster, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.shapes.verify import Report
    from gpuprov.shapes.watch import Change
    from gpuprov.verify.request import Work


def verify_nodes(fleet: Fleet, cluster: str, nodes: Sequence[str] | None, work: Work) -> VerifiedHosts:
    """Prove nodes, all where None.

    Raises:
        UsageError: There is no such node, or no node at all.
        GpuprovError: Nobody answers who may have the cluster.
    """
    seen = find_over_hosts(fleet, cluster)
    if seen is not None:
        from gpuprov.fleet.verify_hosts import verify_over_hosts

        with fleet.reporter.phase("verify"):
            return verify_over_hosts(seen, fleet.connect(), nodes=nodes or (), work=work)
    _refuse_nowhere(fleet, cluster)
    driver, state = observe_here(fleet, cluster)
    report = _verify_here(fleet, driver, cluster, nodes, work, state)
    verified = {node.node for node in report.nodes}  # an older image is no fault: it changes no verdict
    older = {name: lack for name, lack in find_older(driver, state).items() if name in verified}
    return VerifiedHosts(report=report, failed={}, asked=1, notes=older_notes(older, cluster))


def _refuse_nowhere(fleet: Fleet, cluster: str) -> None:
    """Refuse a cluster that no host has, where this machine has no engine for one."""
    if not fleet.works_here:
        raise UsageError(
            f"the cluster {cluster} has no nodes",
            evidence=f"neither here nor on {', '.join(fleet.others)}",
            fix="gpuprov list",
        )


def _verify_here(
    fleet: Fleet,
    driver: Driver,
    cluster: str,
    nodes: Sequence[str] | None,
    work: Work,
    state: ClusterState | None = None,
) -> Report:
    return one_host.verify_cluster(
        driver, cluster, host=fleet.here, nodes=nodes, reporter=fleet.reporter, work=work, state=state
    )


def watch_nodes(  # noqa: PLR0913 - what is watched, how hard and how often, and who is told
    fleet: Fleet,
    cluster: str,
    nodes: Sequence[str] | None,
    work: Work,
    *,
    keep: Callable[[Report], object],
    rounds: Iterable[None],
    tell: Callable[[Sequence[Change]], object],
) -> None:
    """Prove nodes in each round; the first one tells every host and node, later ones only what has changed.

    A node that goes away is told and no longer asked for until it is back.

    Args:
        fleet: The hosts; its reporter is told which nodes get work no more or again, and nothing else.
        cluster: Name of the cluster.
        nodes: Which are watched; None for all, those that come later as well.
        work: How hard the kernels work.
        keep: Is handed the report of each round.
        rounds: Gives the rhythm; an endless one is ended by KeyboardInterrupt.
        tell: Is handed the changes of a round that has any.

    Raises:
        GpuprovError: The first round could not be done.
    """
    quiet = replace(fleet, reporter=Silent())  # what the rounds say would fill the log in days
    if find_over_hosts(fleet, cluster) is not None:
        watch_rounds(
            lambda before: _look_at_hosts(fleet, cluster, nodes or (), work, keep, before),
            compare,
            rounds=rounds,
            first=lambda seen: tell(compare(Seen(), seen)),
            tell=tell,
            trouble=change_of_cluster,
        )
        return

    _refuse_nowhere(fleet, cluster)

    def verify(driver: Driver, there: Sequence[str] | None) -> Report:
        report = _verify_here(quiet, driver, cluster, there, work)
        keep(report)
        return report

    one_host.watch(
        verify, lambda: open_cluster_here(fleet, cluster), cluster=cluster, nodes=nodes, rounds=rounds, tell=tell
    )


def _look_at_hosts(
    fleet: Fleet,
    cluster: str,
    nodes: Sequence[str],
    work: Work,
    keep: Callable[[Report], object],
    before: Seen | None,
) -> Seen:
    """One round over hosts."""
    from gpuprov.fleet import unreachable_hosts as absent_hosts
    from gpuprov.fleet.find_hosted import require_spanning
    from gpuprov.fleet.verify_hosts import verify_over_hosts

    hosts, reporter = fleet.connect(), fleet.reporter
    found = require_spanning(cluster, fleet.others, hosts)
    there = [name for name in nodes if before is None or name in found.whole.homes]
    if nodes and not there:
        return Seen()
    for line in absent_hosts.tell_away(found, hosts, reporter=reporter):  # soon: what follows takes seconds
        reporter.note(line)
    report = verify_over_hosts(found, hosts, nodes=there, work=work).report
    keep(report)
    for line in absent_hosts.tell_back(found, hosts, reporter=reporter, sound=absent_hosts.sound_nodes(report)):
        reporter.note(line)
    return Seen(nodes={place.node: place for place in report.places})
