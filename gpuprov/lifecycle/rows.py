"""A node as tables and documents show it: what the engine says of it, and its role; reads only."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gpuprov.cluster.built_images import describe_builder, find_builder
from gpuprov.cluster.held_gpus import gpu_paths, leased_uuids
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import GpuprovError
from gpuprov.core.exhaustion import is_used_up
from gpuprov.core.names import name_cluster
from gpuprov.drivers.base import LABEL_ACCESS, LABEL_CLUSTER, LABEL_IMAGE, LABEL_ROLE, LABEL_SHARING, ROLE_BUILDER
from gpuprov.drivers.node_processes import read_processes
from gpuprov.shapes.base import changed
from gpuprov.shapes.nodes import OLD_IMAGE, NodeRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver, NodeState


def cluster_rows(driver: Driver, name: str) -> tuple[NodeRow, ...]:
    """Every node of a cluster, with the view that its role has of it."""
    return state_rows(driver, observe_cluster(driver, name))


def state_rows(driver: Driver, state: ClusterState) -> tuple[NodeRow, ...]:
    """The same of a cluster that was observed a moment ago."""
    return found_rows(driver, state, read_work(driver, state))


def read_work(driver: Driver, state: ClusterState) -> dict[str, str]:
    """The word of its role for each node, as far as roles respond."""
    from gpuprov.roles.registry import roles_of  # here, for a list of nodes needs no role and starts sooner without

    states: dict[str, str] = {}
    for role in roles_of(node.labels.get(LABEL_ROLE, "") for node in state.nodes):
        with suppress(GpuprovError):  # a role that does not answer shows as nodes of which it says nothing
            states |= role.states(driver, state)
    return states


def found_rows(driver: Driver, state: ClusterState, work: Mapping[str, str]) -> tuple[NodeRow, ...]:
    """The nodes of a cluster of which all of this was found out a moment ago."""
    from gpuprov.lifecycle.image_age import find_older  # as above

    older = find_older(driver, state)
    rows = (
        node_row(
            node,
            work.get(node.name, ""),
            engine=driver.name,
            processes=read_processes(node, driver.process_groups),
        )
        for node in state.nodes
    )
    return tuple(
        changed(row, health=OLD_IMAGE.format(older[row.name])) if row.health == "ok" and row.name in older else row
        for row in rows
    )


def list_rows(driver: Driver, *, everything: bool) -> tuple[NodeRow, ...]:
    """Nodes of all clusters, copies of them and a builder; with `everything`, other foreign instances too."""
    builder = find_builder(driver)
    found = sorted([*driver.list_nodes(), *([builder] if builder else [])], key=lambda node: node.name)
    return tuple(node_row(node, "", engine=driver.name) for node in found if node.ours or node.copy_of or everything)


def node_row(node: NodeState, work: str, *, engine: str, processes: int | None = None) -> NodeRow:
    """A node as tables and JSON show it.

    Args:
        node: What its engine says.
        work: What its role says.
        engine: The engine's name.
        processes: How many it has, where that is known.
    """
    return NodeRow(
        name=node.name,
        host=node.host,
        cluster=node.labels.get(LABEL_CLUSTER, "(foreign)"),
        engine=engine,
        role=node.labels.get(LABEL_ROLE, ""),
        status=node.status,
        address=node.addresses.get("eth0", "").partition("/")[0],
        private_address=node.addresses.get("eth1", "").partition("/")[0],
        gpus=leased_uuids(node),
        devices=gpu_paths(node.devices),
        sharing=node.labels.get(LABEL_SHARING, "") if leased_uuids(node) else "",
        simulated=node.labels.get(LABEL_ACCESS) == "simulated",
        work=work,
        health=_health(node, work, engine, processes),
        image=node.labels.get(LABEL_IMAGE, ""),
        limits=node.limits,
    )


def _health(node: NodeState, work: str, engine: str, processes: int | None) -> str:
    if not node.ours:
        return f"{node.copy_of}; it is left alone" if node.copy_of else ""
    if node.labels.get(LABEL_ROLE) == ROLE_BUILDER:
        return describe_builder(engine)
    if not node.complete:
        return name_cluster("unfinished: gpuprov cluster up", node.labels[LABEL_CLUSTER])
    if node.status != "running":
        return f"{node.status}: gpuprov start {node.name}"
    limit = node.limits.processes
    if limit and processes and is_used_up(processes, limit):
        return f"processes used up ({processes} of {limit}): gpuprov stop {node.name} --force"
    return _judge(node, work) if work else "ok"


def _judge(node: NodeState, work: str) -> str:
    """Whether its role is content with its word for the node."""
    from gpuprov.roles.registry import ROLES

    role = ROLES.get(node.labels.get(LABEL_ROLE, ""))
    if role and not role.is_ready(work):
        return name_cluster(f"{role.title} reports {work}: gpuprov cluster up", node.labels[LABEL_CLUSTER])
    return "ok"
