"""A cluster as its hosts say: what each has of it, and which node gives work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError, Unreachable
from gpuprov.roles.registry import role_of
from gpuprov.shapes.base import changed
from gpuprov.shapes.nodes import NodeRow, RowStatus
from gpuprov.spec.shared_folder import folder_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.fleet.member.host_part import HostPart
    from gpuprov.link.address import RemoteMachine
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.whole import Member, WholeCluster


AWAY: Final[RowStatus] = "unreachable"  # the status of nodes on a host that does not answer


@dataclass(frozen=True, kw_only=True)
class SpanningCluster:
    """A cluster that spans hosts, as its hosts say.

    Attributes:
        spec: As recorded on the host that has the newest state; None where none has any.
        whole: The newest state of the nodes of all hosts.
        machines: Its hosts, those too that do not answer, by their names in it.
        parts: What hosts that answer have of it.
        failed: Why the others do not.
        away: Since when hosts are unreachable.
        here_alone: Whether this machine alone was asked, in process.
    """

    name: str
    spec: ClusterSpec | None
    whole: WholeCluster
    machines: Mapping[str, RemoteMachine]
    parts: Mapping[str, HostPart]
    failed: Mapping[str, GpuprovError] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)
    here_alone: bool = False

    @property
    def spans(self) -> bool:
        """Whether it is one over hosts, and not what this machine alone has of a cluster."""
        return bool(self.spec and self.spec.hosts) and not self.here_alone

    @property
    def shared_folder(self) -> str:
        """The folder of its hosts that its nodes share; empty for none."""
        if self.here_alone:
            return next(iter(self.parts.values())).shared_folder
        return folder_of(self.spec) if self.spec else ""

    @property
    def rows(self) -> tuple[NodeRow, ...]:
        """Every node of all hosts, those too whose host does not answer, by name."""
        words = {node: word for part in self.parts.values() for node, word in part.words.items()}
        rows = [with_word(row, words) for part in self.parts.values() for row in part.rows]
        there = {row.name for row in rows}
        rows += [self._away_row(member) for member in self.whole.members if member.name not in there]
        return tuple(sorted(rows, key=lambda row: row.name))

    def _away_row(self, member: Member) -> NodeRow:
        since = self.away.get(member.host, "")
        if member.host in self.parts:
            health = "missing: gpuprov cluster up"
        else:
            health = f"{member.host} is unreachable since {since}" if since else f"{member.host} does not answer"
        there = self.spec.host(member.host) if self.spec else None
        return NodeRow(
            name=member.name,
            host=member.host,
            cluster=self.name,
            engine=(there.engine if there else None) or (self.spec.engine if self.spec else ""),
            role=member.role,
            status="missing" if member.host in self.parts else AWAY,
            address="",
            private_address=member.private_address,
            gpus=member.gpus,
            devices=member.devices,
            sharing=self.spec.gpus.sharing if self.spec and member.gpus else "",
            simulated=member.simulated,
            work="",
            health=health,
            image="",
        )


def with_word(row: NodeRow, words: Mapping[str, str]) -> NodeRow:
    """A node with the word that its role on another host has for it."""
    if row.work or row.name not in words:
        return row
    word = words[row.name]
    role = role_of(row.role)
    bad = row.is_well and not role.is_ready(word)
    return changed(row, work=word, health=f"{role.title} reports {word}: gpuprov cluster up" if bad else row.health)


def untold_hosts(seen: SpanningCluster) -> dict[str, GpuprovError]:
    """The hosts of the cluster that do not answer: their nodes do not learn what changes."""
    away = Unreachable(
        "hosts are unreachable", evidence="they did not answer when they were last asked", fix="gpuprov host list"
    )
    return {host: seen.failed.get(host, away) for host in seen.machines if host not in seen.parts}


def controller_of(seen: SpanningCluster) -> str | None:
    """The node that gives work now: the usual one, unless that is unreachable and one that takes its place is not.

    None where the nodes need none.
    """
    controllers = role_of(seen.spec.nodes.role).controller_names(seen.spec) if seen.spec else ()
    running = {row.name for part in seen.parts.values() for row in part.rows if row.status == "running"}
    return next((controller for controller in controllers if controller in running), next(iter(controllers), None))


def host_of_controller(seen: SpanningCluster) -> str:
    """The host of the node that gives work; any host where no node does; empty where none answers."""
    return seen.whole.homes.get(controller_of(seen) or "", next(iter(seen.parts), ""))
