"""What goes with nodes that are removed, in words for whoever is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.names import fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.drivers.base import NodeState


def describe_lost_nodes(nodes: Sequence[NodeState]) -> tuple[str, ...]:
    """A line for them, and one for their snapshots; none where there are none."""
    if not nodes:
        return ()
    snapshots = [f"{label} of {node.name}" for node in nodes for label in node.snapshots]
    more = (f"{count_of(len(snapshots), 'snapshot')}: {', '.join(snapshots)}",) if snapshots else ()
    return (lost_nodes_line([node.name for node in nodes]), *more)


def lost_nodes_line(names: Sequence[str]) -> str:
    """How many, which, and that their disks go too."""
    return (
        f"{count_of(len(names), 'node')} with all data on {'its disk' if len(names) == 1 else 'their disks'}: "
        + fold(list(names))
    )


def count_of(number: int, word: str) -> str:
    """Such as `1 node` and `2 nodes`."""
    return f"{number} {word}{'' if number == 1 else 's'}"
