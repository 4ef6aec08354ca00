"""What a cluster would lose because a spec file says less than the cluster has, or than was ordered: pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprov.cluster.lost_nodes import lost_nodes_line
from gpuprov.cluster.order_label import describe_unread
from gpuprov.cluster.plan import sort_surplus
from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import few
from gpuprov.core.names import fold
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.spec.addressing import node_name
from gpuprov.spec.draft import SHARE
from gpuprov.spec.shared_folder import SHARED, folder_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.cluster.state import ClusterState
    from gpuprov.spec.draft import Draft

_NAMED = 5  # people in a line


@dataclass(frozen=True, kw_only=True)
class Shrinking:
    """What is lost.

    Attributes:
        nodes: Those that are removed.
        folder: Of the host, which the nodes do not share any more.
        unread: Options of nodes that this version does not know, in words, by node.
        people: Those who have no account in the nodes any more.
    """

    nodes: tuple[str, ...] = ()
    folder: str = ""
    unread: Mapping[str, str] = field(default_factory=dict)
    people: tuple[str, ...] = ()

    @property
    def who(self) -> str:
        """Some of those people, and how many more there are."""
        return few(self.people, _NAMED)

    @property
    def lines(self) -> tuple[str, ...]:
        """In words; none where nothing is lost."""
        nodes = (lost_nodes_line(self.nodes),) if self.nodes else ()
        folder = (f"{SHARED} of the nodes: {self.folder}, which stays on the host",) if self.folder else ()
        people = (f"accounts and processes of {self.who}",) if self.people else ()
        return (*nodes, *folder, *people, *(f"{name}: {words}" for name, words in self.unread.items()))

    def refuse_others(self, gone: Iterable[str], unread: Iterable[str]) -> None:
        """Refuse to remove nodes that nobody was told of, or to do without options of such nodes.

        Raises:
            UsageError: There are some.
        """
        others = [name for name in gone if name not in self.nodes]
        without = [name for name in unread if name not in self.unread]
        if others or without:
            raise UsageError(
                f"{fold(others or without)} would {'be removed' if others else 'lose options'} as well",
                evidence="another run changed the cluster meanwhile",
                fix="run the same command again",
            )


def foresee_shrinking(draft: Draft, state: ClusterState) -> Shrinking:
    """What a draft from a file takes away from a cluster on one host, without `--prune`."""
    spec = draft.filled(state.settled) if state.settled else draft.spec
    wanted = [node_name(spec.nodes.prefix, number) for number in range(spec.nodes.count)]
    gone, _ = sort_surplus(spec, state, wanted, prune=False)
    keeps = SHARE in draft.left or not state.nodes  # also where the recorded spec cannot be read
    return Shrinking(
        nodes=gone,
        folder="" if keeps else lost_folder(state.shared_folder, spec),
        unread=describe_unread(node for node in state.nodes if node.complete and node.name not in gone),
        people=lost_people(state.recorded if isinstance(state.recorded, ClusterSpec) else None, spec),
    )


def lost_people(recorded: ClusterSpec | None, spec: ClusterSpec) -> tuple[str, ...]:
    """Those whom a cluster has and would not have any more."""
    staying = {person.name for person in spec.people}
    going = [person for person in recorded.people if person.name not in staying] if recorded else []
    return tuple(person.name for person in going if not person.in_directory)


def lost_folder(shared: str, spec: ClusterSpec) -> str:
    """The folder that nodes share and would not any more; empty where there is none."""
    return "" if folder_of(spec) == shared else shared
