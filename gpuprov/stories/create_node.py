"""`create-node` and `clone`: one more node, on this machine or on another host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.fleet.done import Done

if TYPE_CHECKING:
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.fleet.hosted_order import HostedOrder
    from gpuprov.lifecycle.create_node import CloneOrder


def create_node(fleet: Fleet, order: HostedOrder) -> Done:
    """Make a node on the host that is said, or on one of those that its cluster spans, else on this machine.

    Raises:
        ClusterSlip: Its cluster would be new, and another one has a name like that; nothing was changed.
        UsageError: It cannot be had as ordered; nothing was changed.
        GpuprovError: A host that may have the cluster does not answer, or it failed there.
    """
    if order.host is not None or fleet.of_cluster(order.node.cluster).others:
        from gpuprov.fleet.node_there import create_over_hosts

        done = create_over_hosts(order, fleet.others, fleet.connect(), reporter=fleet.reporter)
        if done is not None:
            return done
    from gpuprov.fleet.member.create import make_node

    _, outcome = make_node(order.node, fleet.here, engine=order.engine, wait_s=order.wait_s, reporter=fleet.reporter)
    return Done(outcome=outcome)


def clone_node(fleet: Fleet, order: CloneOrder) -> Done:
    """Copy a stopped node on its host.

    Raises:
        UsageError: There is no such node, it runs, or the name or address cannot be had.
        GpuprovError: A host that may have it does not answer, or it failed there.
    """
    if order.source not in fleet.find_here([order.source]):
        from gpuprov.cluster.find_node import AbsentNode
        from gpuprov.fleet.node_there import clone_over_hosts

        try:
            return clone_over_hosts(order, fleet.others, fleet.connect(), reporter=fleet.reporter)
        except AbsentNode:
            fleet.refuse_silence_here([order.source])
            raise
    from gpuprov.fleet.member.create import copy_node

    return Done(outcome=copy_node(order, fleet.here, engine=fleet.engine, reporter=fleet.reporter))
