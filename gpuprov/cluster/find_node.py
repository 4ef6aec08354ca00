"""One node of ours, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import LABEL_CLUSTER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.drivers.base import Driver, NodeState


def get_node(driver: Driver, name: str) -> NodeState:
    """A node of ours.

    Raises:
        UsageError: There is none of that name; foreign instances are not ours to show or touch.
    """
    node = driver.find_node(name)
    if node is None or not node.ours:
        raise UsageError(
            f"there is no node {name}",
            evidence=f"{driver.name} has an instance {name} that gpuprov did not create"
            if node
            else f"nodes: {', '.join(n.name for n in driver.list_nodes() if n.ours) or 'none'}",
            fix="list the nodes: gpuprov list",
        )
    return node


def clusters_of(driver: Driver, names: Iterable[str]) -> set[str]:
    """The clusters of nodes of ours.

    Raises:
        UsageError: There is none of a name.
    """
    return {get_node(driver, name).labels[LABEL_CLUSTER] for name in names}


def get_running(driver: Driver, name: str) -> NodeState:
    """A node of ours that runs.

    Raises:
        UsageError: There is none of that name, or it does not run.
    """
    node = get_node(driver, name)
    if node.status != "running":
        raise UsageError(f"{name} is not running", evidence=f"it is {node.status}", fix=f"gpuprov start {name}")
    return node
