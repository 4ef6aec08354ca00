"""What is said of instances that are not ours, some of which look as if they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError, NotOurs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpuprov.drivers.base import NodeState

LIST_ALL = "list what exists: gpuprov list --all"
_ADOPT = "if it replaces the node: {command} config set {{name}} user.gpuprov.self={{name}}"
_REPLACES = {command: _ADOPT.format(command=command) for command in ("lxc", "incus")}


class NetworkInUse(EngineError):
    """A network of ours cannot be removed while instances are on it; the evidence names them."""

    def __init__(self, name: str, users: Sequence[str]) -> None:
        fix = "list them: gpuprov list --all; their owners can remove them or move them elsewhere"
        super().__init__(f"the network {name} is in use", evidence=f"by {', '.join(sorted(users))}", fix=fix)


def describe_foreign(node: NodeState) -> str:
    """In words, after "is": a copy of a node, or something that gpuprov did not create, or not here."""
    if node.member:
        return f"an instance on {node.member}, another member of the engine's cluster"
    return str(node.copy_of) if node.copy_of else "an instance that gpuprov did not create"


def lack_of_foreign(node: NodeState) -> str:
    """What shows that it is foreign, in words."""
    if node.member:
        return "all members of the engine's cluster share the names of instances"
    return "it has no gpuprov label, or those of another instance"


def way_back(node: NodeState, command: str) -> str | None:
    """What to type so that a copy is the node whose labels it has; None where it is no copy, or they do not tell.

    Args:
        node: The foreign instance.
        command: The engine's own client.
    """
    if node.copy_of is None or not node.copy_of.name:
        return None
    if node.copy_of.name == node.name:  # it took the name of the node that it was copied from
        return _REPLACES.get(command, "").format(name=node.name) or None
    stop = "" if node.status == "stopped" else f"{command} stop {node.name} && "
    return f"if it is {node.copy_of.name} itself, renamed: {stop}{command} rename {node.name} {node.copy_of.name}"


def not_ours(node: NodeState, command: str, *, lack: str) -> NotOurs:
    """The error for whoever wants to change it.

    Args:
        node: The foreign instance.
        command: The engine's own client.
        lack: What shows that it is not ours.
    """
    if node.member:
        what = f"{node.name} is {describe_foreign(node)}, and is not changed"
        return NotOurs(what, evidence=f"it is {node.status}", fix=f"run the command on {node.member}; {LIST_ALL}")
    if node.copy_of is None:
        what = f"{node.name} was not created by gpuprov and is not changed"
        return NotOurs(what, evidence=f"{lack}; it is {node.status}", fix="choose another name; " + LIST_ALL)
    evidence = (
        f"it has the labels of {node.copy_of.name or 'another node'} and is another instance; it is {node.status}"
    )
    fix = way_back(node, command) or "choose another name; " + LIST_ALL
    return NotOurs(f"{node.name} is {node.copy_of} and is not changed", evidence=evidence, fix=fix)


def name_taken(node: NodeState, command: str) -> EngineError:
    """The error for whoever wants to make a node of its name; NotOurs where it is foreign."""
    kind = EngineError if node.ours else NotOurs
    rename = f"choose another name, or rename the instance: {command} rename {node.name} NEW-NAME"
    if node.member:
        rename = "choose another name: in the engine's cluster, all members share them"
    show = f"choose another name; about that node: gpuprov show {node.name}"
    return kind(
        f"the name {node.name} is taken",
        evidence=f"{node.name} is {'a node' if node.ours else describe_foreign(node)} ({node.status})",
        fix=show if node.ours else way_back(node, command) or rename,
    )


def copies_of(name: str, nodes: Iterable[NodeState]) -> list[NodeState]:
    """The foreign instances that have the labels of a node of this name."""
    return [node for node in nodes if node.copy_of is not None and node.copy_of.name == name]


def copies_of_cluster(cluster: str, nodes: Iterable[NodeState]) -> list[NodeState]:
    """The foreign instances that have the labels of a node of this cluster."""
    return [node for node in nodes if node.copy_of is not None and node.copy_of.cluster == cluster]
