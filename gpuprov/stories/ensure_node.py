"""Bring a node of any host to a state, idempotently: for Ansible, by the stories that do so for a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.cluster.retry_after_wait import act_on_cluster
from gpuprov.cluster.told_gpus import board_of
from gpuprov.core.errors import UsageError
from gpuprov.core.names import check_node_name, name_cluster
from gpuprov.fleet.find_hosted import find_spanning
from gpuprov.fleet.fleet import ask_others
from gpuprov.fleet.found_nodes import locate_nodes, refuse_absent
from gpuprov.fleet.here import find_over_hosts
from gpuprov.fleet.hosted_order import HostedOrder
from gpuprov.fleet.node_home import get_host_for
from gpuprov.fleet.node_there import create_over_hosts
from gpuprov.fleet.nodes_work import change_nodes_there
from gpuprov.fleet.questions.gpus import GPUS
from gpuprov.lifecycle import ensure
from gpuprov.lifecycle.before_after import BeforeAfter
from gpuprov.lifecycle.ensure import asks_for_gpus, gpu_differences, refuse_differences, word_differences
from gpuprov.lifecycle.leaving import SPARE_JOBS
from gpuprov.shapes.orders import GpusOrder, NodesOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.lifecycle.ensure import NodeGoal
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import Hosts
    from gpuprov.shapes.node_order import NodeOrder
    from gpuprov.shapes.nodes import NodeRow
    from gpuprov.shapes.orders import Act

_DONE: Final = {"rm": "removed", "start": "started", "stop": "stopped"}


def ensure_node(
    fleet: Fleet, order: NodeOrder, goal: NodeGoal, *, check: bool = False, policy: JobsPolicy = SPARE_JOBS
) -> BeforeAfter:
    """Bring a node to its goal: on this machine, or in a cluster over hosts.

    Args:
        order: The requested node; fields that are None are not compared with an existing node.
        goal: `present` (it runs), `stopped` or `absent`.
        check: Say what would change, and change nothing.
        policy: What becomes of jobs on the node.

    Raises:
        GpuprovError: The node is there and is not as ordered, or something refused or failed.
    """
    reporter = fleet.reporter
    seen = find_over_hosts(fleet, order.cluster)
    if seen is not None:
        known, hosts = fleet.others, fleet.connect()
        return ensure_node_over_hosts(order, goal, seen, known, hosts, reporter=reporter, check=check, policy=policy)
    return act_on_cluster(
        fleet.here,
        fleet.engine,
        order.cluster,
        lambda driver, host: ensure.ensure_node(
            driver, order, goal, host, reporter=reporter, check=check, policy=policy
        ),
        reporter=reporter,
        creates=goal != "absent",
    )


def ensure_node_over_hosts(  # noqa: PLR0913 - what a module is given, and whom it tells
    order: NodeOrder,
    goal: NodeGoal,
    seen: SpanningCluster,
    known: Mapping[str, RemoteMachine],
    hosts: Hosts,
    *,
    reporter: Reporter,
    check: bool = False,
    policy: JobsPolicy = SPARE_JOBS,
) -> BeforeAfter:
    """Bring a node to its goal on its host, a new one on the host that placement chooses.

    Args:
        order: The requested node; fields that are None are not compared with an existing node.
        goal: `present` (it runs), `stopped` or `absent`.
        known: The hosts that `host add` has remembered.
        hosts: The way to hosts.
        check: Say what would change, and change nothing.
        policy: What becomes of jobs on the node.

    Raises:
        UsageError: The node is there and is not as ordered, or cannot be made as ordered.
        GpuprovError: A host refused, or did not do its part; what the others did stays.
    """
    check_node_name(order.name)
    row = _find(order.name, seen)
    whole = row if order.name in seen.whole.homes else None  # a run was killed before all hosts knew of it
    if goal != "absent" and whole:
        _refuse_other(order, whole, seen, hosts, reporter)
    creates = goal != "absent" and whole is None
    verb = _verb(goal, row, creates=creates)
    before = (row,) if row else ()
    if check:
        changed = (
            [f"{get_host_for(HostedOrder(node=order), known, hosts)}: created node {order.name}"] if creates else []
        )
        changed += [f"{row.host}: {_DONE[verb]} {order.name}"] if row and verb else []
        return BeforeAfter(changed=tuple(changed), before=before, after=before)
    changed = []
    if creates:
        changed += _create(order, known, hosts, reporter)
    if verb:
        changed += _change(verb, order.name, policy, known, hosts, reporter)
    if not changed:
        return BeforeAfter(before=before, after=before)
    found = find_spanning(seen.name, known, hosts)
    after = tuple(one for one in found.rows if one.name == order.name) if found else ()
    return BeforeAfter(changed=tuple(changed), before=before, after=after)


def _find(name: str, seen: SpanningCluster) -> NodeRow | None:
    """The node, which its host has.

    Raises:
        GpuprovError: The host does not answer, or has lost it.
    """
    row = next((row for row in seen.rows if row.name == name), None)
    if row is None:
        return None
    if row.host in seen.failed:
        raise seen.failed[row.host]
    if row.status == "missing":
        raise UsageError(
            f"{row.host} has no node {name}",
            evidence=f"cluster {seen.name} has one there: it was removed without gpuprov",
            fix=name_cluster("gpuprov cluster up", seen.name),
        )
    return row


def _verb(goal: NodeGoal, row: NodeRow | None, *, creates: bool) -> Act | None:
    """What brings a node that is there, or that is made, to the goal; None for nothing."""
    if goal == "absent":
        return "rm" if row else None
    if goal == "stopped":
        return "stop" if creates or (row and row.status != "stopped") else None
    return "start" if not creates and row and row.status != "running" else None


def _refuse_other(order: NodeOrder, row: NodeRow, seen: SpanningCluster, hosts: Hosts, reporter: Reporter) -> None:
    """Refuse a node that is not as ordered."""
    has = {"address": row.address, "cluster": row.cluster, "role": row.role, "image": row.image}
    wrong = word_differences(order, {**has, "sharing": row.sharing} if row.gpus else has)
    if asks_for_gpus(order):
        told = ask_others(GPUS, GpusOrder(), {row.host: seen.machines[row.host]}, hosts)
        told.require_answer()
        wrong += gpu_differences(order.gpus, row.gpus, board_of(told.answers[row.host]).host)
    refuse_differences(order.name, wrong)
    if order.privileged or order.mounts:
        reporter.warn(f"{row.name} is on {row.host}: its mounts and privileges are not compared with the request")


def _create(order: NodeOrder, known: Mapping[str, RemoteMachine], hosts: Hosts, reporter: Reporter) -> tuple[str, ...]:
    done = create_over_hosts(HostedOrder(node=order), known, hosts, reporter=reporter)
    if done is None:  # it spans no hosts any more
        raise UsageError(
            f"cluster {order.cluster} does not span hosts any more",
            evidence="another command has changed it meanwhile",
            fix="run the same task again",
        )
    if done.error:
        raise done.error
    return done.outcome.changed


def _change(
    verb: Act,
    name: str,
    policy: JobsPolicy,
    known: Mapping[str, RemoteMachine],
    hosts: Hosts,
    reporter: Reporter,
) -> tuple[str, ...]:
    found = locate_nodes([name], known, hosts)
    if verb != "rm":
        refuse_absent([name], found, known)
    order = NodesOrder(act=verb, nodes=(name,), force=policy.force, drain_s=policy.drain_s)
    done = change_nodes_there(found, order, hosts, reporter=reporter)
    if done.error:
        raise done.error
    return done.outcome.changed
