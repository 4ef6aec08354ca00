"""Where a node is, or the one that takes a cluster's jobs: on this machine, or on a host that was added.

A node of this machine comes first. What hosts are asked with loads much: it is imported where one has to be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpuprov.cluster.find_engine import open_engine_of_node
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.fleet.here import find_over_hosts, open_cluster_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.fleet.questions.question import Question
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import Hosts
    from gpuprov.machine.base import Host
    from gpuprov.shapes.base import Shape
    from gpuprov.shapes.nodes import NodeRow
    from gpuprov.shapes.orders import OneNodeOrder

OfNode = TypeVar("OfNode", bound="OneNodeOrder")
Served = TypeVar("Served", bound="Shape")


def find_host(fleet: Fleet, node: str) -> RemoteMachine | None:
    """The host that has a node; None where this machine has it, or is meant alone.

    Raises:
        UsageError: No host that answers has it, or more than one.
        EngineError: None has it, and an engine of this machine does not answer.
        PartDone: None that answers has it, and some do not answer.
    """
    if fleet.find_here([node]):
        return None
    return _get_elsewhere(fleet, node, fleet.connect())[0]


def serve_where_it_is(
    fleet: Fleet,
    order: OfNode,
    serve: Callable[[OfNode, Host, Reporter], Served],
    answer: type[Served],
    *,
    total_s: float | None = None,
) -> Served:
    """What comes of an order about a node on the machine that has it.

    Args:
        fleet: Where it may be.
        serve: How a host serves that.
        answer: What comes of it.
        total_s: How long another host may take to answer; None for work, which may take long while it goes on.

    Raises:
        GpuprovError: As `find_host` says, or the host fails or does not answer.
    """
    machine = find_host(fleet, order.node)
    if machine is None:
        return serve(order, fleet.here, fleet.reporter)
    from gpuprov.link.answers import read_answer
    from gpuprov.link.ask import MemberRequest
    from gpuprov.link.several import told_by

    (told,) = fleet.connect().work({machine: MemberRequest(order=order, total_s=total_s)})
    return read_answer(answer, told_by(told), machine.name)


def ask_where_it_is(fleet: Fleet, question: Question[OfNode, Served], order: OfNode) -> Served:
    """The same of a question."""
    return serve_where_it_is(fleet, order, question.here, question.answer, total_s=scaled_limit_s(question.total_s))


def reach_node(fleet: Fleet, node: str) -> Driver:
    """A driver of a node, and of those beside it.

    Raises:
        GpuprovError: As `find_host` says.
    """
    if fleet.find_here([node]):
        return open_engine_of_node(node, fleet.engine, fleet.here, reporter=fleet.reporter)
    from gpuprov.cluster.nodes_elsewhere import NodesElsewhere

    hosts = fleet.connect()
    machine, row = _get_elsewhere(fleet, node, hosts)
    return NodesElsewhere.as_driver(hosts, machine, row.cluster, row.engine)


def _get_elsewhere(fleet: Fleet, node: str, hosts: Hosts) -> tuple[RemoteMachine, NodeRow]:
    from gpuprov.cluster.find_node import AbsentNode
    from gpuprov.fleet.find_hosted import get_host_of_node

    try:
        return get_host_of_node(node, fleet.others, hosts)
    except AbsentNode:
        fleet.refuse_silence_here([node])
        raise


def reach_controller(fleet: Fleet, cluster: str) -> Driver:
    """A driver of the nodes on the host whose node takes the jobs of a cluster.

    Raises:
        GpuprovError: There is no such cluster, or that host does not answer.
    """
    seen = find_over_hosts(fleet, cluster)
    if seen is None:
        return open_cluster_here(fleet, cluster)
    from gpuprov.fleet.controller import asked_of

    return asked_of(seen, fleet.connect())
