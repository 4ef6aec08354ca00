"""Hosts of a cluster that do not answer: the service that gives work is told, and also when they are back."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError
from gpuprov.core.silence_limit import QUESTION_S, scaled_limit_s
from gpuprov.fleet.find_hosted import lines_of
from gpuprov.fleet.hosted_cluster import host_of_controller
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import told_by
from gpuprov.roles.registry import role_of
from gpuprov.shapes.orders import UnreachableOrder
from gpuprov.shapes.verify import LAYERS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.link.hosts import Hosts
    from gpuprov.shapes.verify import Report

_FORM: Final = "%Y-%m-%dT%H:%M:%SZ"


def tell_away_and_back(seen: SpanningCluster, hosts: Hosts, *, reporter: Reporter) -> tuple[str, ...]:
    """`tell_away` and `tell_back`."""
    return (*tell_away(seen, hosts, reporter=reporter), *tell_back(seen, hosts, reporter=reporter))


def tell_away(seen: SpanningCluster, hosts: Hosts, *, reporter: Reporter) -> tuple[str, ...]:
    """Have no work begin on nodes of hosts that are unreachable longer than the spec allows.

    Args:
        seen: The cluster.
        hosts: The way to its hosts.
        reporter: Is warned if the host of the node that gives work could not be asked; the next run tries again.

    Returns:
        A line for each node.
    """
    if seen.spec is None:
        return ()
    now, words = datetime.now(timezone.utc), _words(seen)
    away = {
        host: since
        for host, since in seen.away.items()
        if (now - datetime.strptime(since, _FORM).replace(tzinfo=timezone.utc)).total_seconds()
        >= seen.spec.unreachable.after_s
        and any(member.name in words for member in seen.whole.on(host))
    }
    return _tell(seen, hosts, UnreachableOrder(cluster=seen.name, away=away), reporter)


def tell_back(
    seen: SpanningCluster, hosts: Hosts, *, reporter: Reporter, sound: Collection[str] | None = None
) -> tuple[str, ...]:
    """Have nodes take work again whose hosts were unreachable and answer; as `tell_away` does the opposite.

    Args:
        seen: The cluster.
        hosts: The way to its hosts.
        reporter: As there.
        sound: The nodes that may take work again; None for all on hosts that answer.

    Returns:
        A line for each node.
    """
    words = _words(seen)
    back = [
        member.name
        for member in seen.whole.members
        if member.host in seen.parts
        and words.get(member.name, "").startswith("down")
        and (sound is None or member.name in sound)
    ]
    return _tell(seen, hosts, UnreachableOrder(cluster=seen.name, back=tuple(back)), reporter)


def _words(seen: SpanningCluster) -> Mapping[str, str]:
    """What the role says of nodes on the host that gives them work; empty where that host is unreachable."""
    home = host_of_controller(seen)
    return seen.parts[home].words if home in seen.parts else {}


def _tell(seen: SpanningCluster, hosts: Hosts, order: UnreachableOrder, reporter: Reporter) -> tuple[str, ...]:
    if seen.spec is None or not (order.away or order.back):
        return ()
    home = host_of_controller(seen)
    request = MemberRequest(order=order, total_s=scaled_limit_s(QUESTION_S))
    (answer,) = hosts.work({seen.machines[home]: request})
    try:
        return tuple(lines_of(told_by(answer), home))
    except GpuprovError as error:
        title = role_of(seen.spec.nodes.role).title
        reporter.warn(f"{title} does not know yet which hosts are unreachable or back: {error.what}: {error.evidence}")
        return ()


def sound_nodes(report: Report) -> tuple[str, ...]:
    """The nodes in which `verify` found nothing wrong, whatever roles say: they are given no work yet."""
    return tuple(
        node.node
        for node in report.nodes
        if not any(check.status in ("fail", "unknown") and check.layer in LAYERS for check in node.checks)
        and any(check.status == "pass" for check in node.checks)
    )
