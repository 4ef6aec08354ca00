"""Options with which a later version has created nodes, and that this one does not know: pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.order_label import read_label
from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.names import fold
from gpuprov.drivers.base import LABEL_ORDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.drivers.base import NodeState


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
