"""One node of ours, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import RUN_END, fold, node_of_run
from gpuprov.core.nearest import ask_back
from gpuprov.drivers.foreign import copies_of, describe_foreign, way_back

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gpuprov.cluster.state import EngineState
    from gpuprov.drivers.base import Driver, NodeState


class AbsentNode(UsageError):
    """Nothing has the names of nodes."""

    def __init__(self, nodes: Sequence[str], meant: str, *, evidence: str, fix: str) -> None:
        super().__init__(f"there is no node {fold(list(nodes))}{meant}", evidence=evidence, fix=fix)
        self.nodes = tuple(nodes)


def get_node(driver: Driver, name: str) -> NodeState:
    """A node of ours.

    Raises:
        UsageError: There is none of that name; foreign instances are not ours to show or touch.
    """
    node = driver.find_node(name)
    return _ours(driver, name, [node] if node else driver.list_nodes())


def nodes_named(driver: Driver, engine: EngineState, names: Iterable[str]) -> list[NodeState]:
    """The same of several, in what was observed of the engine; all that are not there are named."""
    named = dict.fromkeys(names)
    absent = [name for name in named if engine.node(name) is None]
    if absent:
        raise absent_nodes(absent, [(driver, engine.nodes)])
    return [_ours(driver, name, engine.nodes) for name in named]


def _ours(driver: Driver, name: str, there: Sequence[NodeState]) -> NodeState:
    node = next((node for node in there if node.name == name), None)
    if node is None:
        raise absent_nodes([name], [(driver, there)])
    if not node.ours:
        raise UsageError(
            f"there is no node {name}",
            evidence=f"{name} in {driver.name} is {describe_foreign(node)}",
            fix=way_back(node, driver.command) or "list the nodes: gpuprov list",
        )
    return node


def absent_nodes(names: Sequence[str], engines: Sequence[tuple[Driver, Sequence[NodeState]]]) -> AbsentNode:
    """The error where nothing has these names; a copy of a node may be all that is left of it, or be the node, renamed.

    Args:
        names: The nodes.
        engines: Those that were asked, and all that each has.
    """
    copies = [(copy, driver) for driver, there in engines for name in names for copy in copies_of(name, there)]
    runs = find_runs_named(names, [node.name for _, there in engines for node in there if node.ours])
    ours = {driver.name: fold([node.name for node in there if is_node(node)]) for driver, there in engines}
    held = [
        f"nodes in {engine}: {nodes}" if len(ours) > 1 else f"nodes: {nodes}" for engine, nodes in ours.items() if nodes
    ]
    evidence = [*(f"{copy.name} is {describe_foreign(copy)}" for copy, _ in copies), *(held or ["nodes: none"])]
    evidence = [*(f"{name} is a container of `gpuprov run`" for name in runs), *evidence]
    back = way_back(copies[0][0], copies[0][1].command) if copies else None
    back = back or (f"gpuprov run ps; gpuprov run logs {runs[0]}" if runs else None)
    meant = ask_back(names, [node.name for _, there in engines for node in there if is_node(node)])
    return AbsentNode(names, meant, evidence="; ".join(evidence), fix=back or "list the nodes: gpuprov list")


def is_node(node: NodeState) -> bool:
    """Whether it is ours, and no container of `gpuprov run` that goes on by itself, which has verbs of its own."""
    return node.ours and not node.name.endswith(RUN_END)


def find_runs_named(names: Iterable[str], there: Collection[str]) -> list[str]:
    """Those of these names of no node that are names of containers of `gpuprov run`."""
    return [name for name in names if node_of_run(name) in there]


def get_running(driver: Driver, name: str) -> NodeState:
    """A node of ours that runs.

    Raises:
        UsageError: There is none of that name, or it does not run.
    """
    node = get_node(driver, name)
    if node.status != "running":
        raise UsageError(f"{name} is not running", evidence=f"it is {node.status}", fix=f"gpuprov start {name}")
    return node


def get_source(driver: Driver, name: str, *, copy: str) -> NodeState:
    """A node of ours that does not run, from which `copy` can be made.

    Raises:
        UsageError: There is none of that name, or it runs, perhaps since a moment ago.
    """
    node = get_node(driver, name)
    if node.status == "running":
        raise UsageError(
            f"{name} is running; a copy could contain half-written files",
            evidence=f"status: {node.status}",
            fix=f"gpuprov stop {name}; gpuprov clone {name} {copy}; gpuprov start {name}",
        )
    return node
