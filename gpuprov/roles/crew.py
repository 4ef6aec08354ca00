"""The nodes of a cluster as roles see them, and as they are when they take work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.whole import Member

RESUMED = "resume {}: a killed gpuprov run left it drained"


def without_started(lines: Iterable[str], started: Collection[str]) -> tuple[str, ...]:
    """Lines of changes, but for what a killed run left of nodes that were stopped: whoever stops a node drains it."""
    own = {RESUMED.format(name) for name in started}
    return tuple(line for line in lines if line not in own)


@dataclass(frozen=True, kw_only=True)
class Crew:
    """The nodes of a cluster as roles see them.

    Attributes:
        spec: What was asked for.
        members: Every node of the cluster, of whatever role, by name.
        controller: The node that gives work now; None where that is to be found out.
        sssd: A site's sssd.conf as a controller has sent it, for a cluster over hosts; empty where none did.
    """

    spec: ClusterSpec
    members: tuple[Member, ...]
    controller: str | None = None
    sssd: str = field(default="", repr=False)

    def of(self, role: str) -> tuple[Member, ...]:
        """The members of one role."""
        return tuple(member for member in self.members if member.role == role)


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Nodes that take work, unless somebody keeps one from it.

    Attributes:
        words: The role's word for each node, as `Role.states` gives it.
        undone: One line for each thing that a killed run had left, and that was undone.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    undone: tuple[str, ...] = ()
