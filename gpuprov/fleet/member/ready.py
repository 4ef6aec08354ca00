"""`ready`: the host of the node that gives work waits until the nodes of all hosts take some."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.cluster.find_engine import engine_of_cluster
from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.whole import recorded_whole
from gpuprov.core.errors import UsageError
from gpuprov.core.names import check_cluster_name
from gpuprov.fleet.member.host_part import look_at_part
from gpuprov.fleet.member.told_part import tell_part
from gpuprov.roles.crew import Crew
from gpuprov.roles.registry import roles_of
from gpuprov.shapes.base import changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
    from gpuprov.shapes.members import PartOfHost
    from gpuprov.shapes.orders import ReadyOrder


def serve_ready(order: ReadyOrder, host: Host, reporter: Reporter) -> PartOfHost:
    """The host's part of the cluster, with the words for nodes that take work, and what was changed for that."""
    name = check_cluster_name(order.cluster)
    driver = engine_of_cluster(name, host.engines, reporter=reporter)
    words, lines = await_nodes(driver, name, order.nodes, host, reporter=reporter)
    part = replace(look_at_part(driver, observe_cluster(driver, name)), words=words)
    return changed(tell_part(part, host=host.name), changed=tuple(lines))


def await_nodes(
    driver: Driver, cluster: str, nodes: Sequence[str], host: Host, *, reporter: Reporter
) -> tuple[dict[str, str], list[str]]:
    """Wait until these nodes take work; returns their roles' words, and a line for each change.

    Raises:
        UsageError: The cluster does not span hosts.
        TimedOut: With each node's last state.
    """
    state = observe_cluster(driver, cluster)
    whole, spec = recorded_whole(state), state.spec
    if whole is None or spec is None:
        raise UsageError(
            f"cluster {cluster} does not span hosts as far as {host.name} knows",
            evidence="nothing is recorded with its network",
            fix=f"gpuprov cluster up --name {cluster} -f FILE",
        )
    members = tuple(member for member in whole.members if member.name in nodes)
    running = {node.name for node in state.nodes if node.status == "running"}
    words: dict[str, str] = {}
    undone: list[str] = []
    with reporter.phase("ready"):
        for role in roles_of(member.role for member in members):
            controller = next((name for name in role.controller_names(spec) if name in running), None)
            ready = role.wait_ready(driver, Crew(spec=spec, members=members, controller=controller), reporter)
            words |= ready.words
            undone += ready.undone
    return words, undone
