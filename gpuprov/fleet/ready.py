"""Wait until nodes of several hosts take work, where the node that gives it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.names import fold
from gpuprov.fleet.hosted_cluster import controller_of, host_of_controller
from gpuprov.link.answers import read_answer
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import told_by
from gpuprov.shapes.members import PartOfHost
from gpuprov.shapes.orders import ReadyOrder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import Hosts


def ask_ready(cluster: str, nodes: Sequence[str], machine: RemoteMachine, hosts: Hosts) -> PartOfHost:
    """The answer to `ready` of the host of the node that gives work, once these nodes take some.

    Raises:
        GpuprovError: They do not, or it does not answer.
    """
    order = ReadyOrder(cluster=cluster, nodes=tuple(nodes))
    (answer,) = hosts.work({machine: MemberRequest(order=order)})
    return read_answer(PartOfHost, told_by(answer), machine.name)


def wait_ready_there(seen: SpanningCluster, names: Sequence[str], hosts: Hosts, reporter: Reporter) -> list[str]:
    """Wait for nodes that were made or started on other hosts; returns a line for each change.

    Raises:
        GpuprovError: They take no work.
    """
    controller, home = controller_of(seen), host_of_controller(seen)
    if controller is None:
        return []
    if home not in seen.parts:
        reporter.warn(
            f"{home} with {controller} does not answer: no new jobs start on {fold(list(names))} until it does"
        )
        return []
    nodes = list(dict.fromkeys([controller, *names]))
    told = ask_ready(seen.name, nodes, seen.machines[home], hosts)
    return [f"{home}: {line}" for line in told.changed or ()]
