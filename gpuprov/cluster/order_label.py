"""The order of a node as its label has it, so that the same command knows its own work: pure functions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.names import fold
from gpuprov.drivers.base import LABEL_ORDER
from gpuprov.shapes.base import changed, parse_json, write
from gpuprov.shapes.faults import find_faults
from gpuprov.shapes.node_order import NodeOrder
from gpuprov.spec.gpu_order import gib_of
from gpuprov.spec.variables import find_variable_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.drivers.base import NodeState


_VERSION: Final = 2
_NOT_OF_THE_NODE: Final = ("gpu_mode", "agreed", "new_cluster", "secret", "sssd")
_BEFORE: Final = {"gpus": "per_node", "sharing": "sharing", "model": "model", "memory_bytes": "memory_gib"}


@dataclass(frozen=True, kw_only=True)
class ReadLabel:
    """An order as a label has it.

    Attributes:
        order: That which is understood of it; None where there is none, or the text is damaged.
        unknown: Paths of what this version does not understand.
    """

    order: NodeOrder | None = None
    unknown: tuple[str, ...] = ()


def write_order(order: NodeOrder) -> str:
    """The text of the label; what is not said is not in it, so that versions which do not know it read the rest."""
    said = {key: value for key, value in write(order).items() if key not in _NOT_OF_THE_NODE}
    return json.dumps({"version": _VERSION, **_without_unsaid(said)}, sort_keys=True, separators=(",", ":"))


def read_order_text(text: str) -> ReadLabel:
    """Read what `write_order` wrote, in this version or another."""
    try:
        said, unknown = _of_this_version(parse_json(text))
        values, faults = find_faults(NodeOrder, said, file="order")
    except (ValueError, OverflowError):
        return ReadLabel()
    if not {"name", "cluster"} <= values.keys():  # damaged by hand: as if it had none
        return ReadLabel()
    order = NodeOrder(**values)
    unknown += [fault.where for fault in faults]
    if any(find_variable_problems(order.environment)):
        order, unknown = changed(order, environment=()), [*unknown, "environment"]
    return ReadLabel(order=order, unknown=tuple(dict.fromkeys(unknown)))


def read_label(node: NodeState) -> ReadLabel:
    """What a node was ordered as, and what of that is not understood; nothing for one that `cluster up` made."""
    text = node.labels.get(LABEL_ORDER)
    return read_order_text(text) if text else ReadLabel()


def read_order(node: NodeState) -> NodeOrder | None:
    """What a node was ordered as, as far as it is understood; None for one that `cluster up` made."""
    return read_label(node).order


def renew_text(text: str) -> str:
    """An order as this version writes it, without what it does not understand; what is damaged stays."""
    order = read_order_text(text).order
    return write_order(order) if order else text


def _without_unsaid(value: Any) -> Any:  # noqa: ANN401 - plain JSON
    if not isinstance(value, dict):
        return value
    said = {key: _without_unsaid(one) for key, one in value.items()}
    return {key: one for key, one in said.items() if one not in (None, [], {})}


def _of_this_version(said: Any) -> tuple[Any, list[str]]:  # noqa: ANN401 - plain JSON
    """The label as this version writes it, and what of it nobody understands.

    Before version 2, what was said of GPUs stood beside the rest.
    """
    if not isinstance(said, dict):
        return said, []
    version = said.pop("version", None)
    if version is not None:
        return said, [] if version == _VERSION else ["version"]
    gpus = {nested: said.pop(flat, None) for flat, nested in _BEFORE.items()}
    if type(gpus["memory_gib"]) is int:
        gpus["memory_gib"] = gib_of(gpus["memory_gib"])
    return {**said, "gpus": {key: one for key, one in gpus.items() if one is not None}}, []


def describe_unread(nodes: Iterable[NodeState]) -> dict[str, str]:
    """What is not known, in words, by the names of the nodes that have it."""
    unknown = {node.name: read_label(node).unknown for node in nodes}
    return {name: f"unknown options ({excerpt(', '.join(paths))})" for name, paths in unknown.items() if paths}


def refuse_unread(unread: Mapping[str, str], cluster: str, *, version: str, alone: bool) -> None:
    """Refuse to bring such nodes to what they were ordered as: they would lose what is not known, as a mount.

    Args:
        unread: Such nodes, each with what is not known.
        cluster: Theirs.
        version: Of gpuprov.
        alone: Whether the cluster is on one host.

    Raises:
        UsageError: There are some.
    """
    if not unread:
        return
    names = list(unread)
    without = f"to do without them: gpuprov cluster up --name {cluster} -f FILE"
    remove = f"or remove the node: gpuprov rm {names[0]}"
    raise UsageError(
        f"the options with which {fold(names)} {'were' if len(names) > 1 else 'was'} created cannot be read",
        evidence="; ".join(f"label {LABEL_ORDER} of {name}: {words}" for name, words in unread.items())
        + f"; this is gpuprov {version}",
        fix=f"upgrade gpuprov, for a later version wrote them; {without if alone else remove}",
    )
