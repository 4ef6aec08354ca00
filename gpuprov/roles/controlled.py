"""Planes whose nodes need one among them, as Slurm its controller and workers a broker; and files of their services."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from gpuprov.cluster.whole import is_elsewhere, members_elsewhere, recorded_whole
from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.names import name_cluster
from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import File
from gpuprov.roles.base import Plane, spec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.roles.base import Crew, FilesOf
    from gpuprov.shapes.cluster_spec import ClusterSpec


class LedPlane(Plane):
    """A plane with a head: a node that the others need.

    Attributes:
        head: What it is, in a word, such as `controller`.
        head_title: The same with what it belongs to.
    """

    head: ClassVar[str]
    head_title: ClassVar[str]

    @abstractmethod
    def head_name(self, spec: ClusterSpec) -> str | None:
        """The name of the head; None where the nodes need none."""

    def refuse_joining(self, node: str, spec: ClusterSpec, state: ClusterState) -> None:
        """A node joins a head that runs, or is the head."""
        head = self.head_name(spec)
        if head is None:
            return
        nodes = state.nodes_of(self.name)
        if is_elsewhere(state, head) or self.running_head(state):
            return  # on another host, nobody here knows whether it runs
        if node != head and not nodes:
            there = f"which is not a {self.title} node" if state.node(head) else "but there is no such node"
            raise UsageError(
                f"cluster {spec.name} has no {self.head_title} for {node} to join",
                evidence=f"the {self.head} would be {head}, {there}",
                fix=self._way_to_a_head(state, head),
            )
        stopped = [one for one in nodes if one.name == head and one.status != "running"]
        if stopped:
            raise UsageError(
                f"the {self.head} {head} of cluster {spec.name} is {stopped[0].status}",
                evidence=f"it runs the {self.head_title}, and {node} has to reach it",
                fix=f"gpuprov start {head}, or --role plain",
            )

    def begins_with(self, node: str, spec: ClusterSpec) -> bool:
        """With the head."""
        return self.head_name(spec) in (node, None)

    def refuse_crew(self, crew: Crew) -> None:
        """The nodes need their head and those that are to take its place; so do nodes that the spec is to get."""
        names = [member.name for member in crew.of(self.name)]
        roles = {member.name: member.role for member in crew.members}
        for head in self.head_names(crew.spec):
            role = roles.get(head, "")
            if head in names or not (names or (role and crew.spec.nodes.role == self.name)):
                continue
            part = self.head if head == self.head_name(crew.spec) else f"backup {self.head}"
            spec = crew.spec
            again = name_cluster(f"{f'gpuprov rm {head}; ' if role else ''}gpuprov cluster up", spec.name)
            other = f"create another cluster: gpuprov cluster up --name {spec.name[:20]}-{self.name} --role {self.name}"
            raise UsageError(
                f"cluster {spec.name} has no {part} for {self.title} nodes",
                evidence=f"the {part} is {head}, which {f'has the role {role!r:.60}' if role else 'does not exist'}",
                fix=f"{other}; or, if nobody needs {head}: {again}" if role else again,
            )

    def refuse_removing(self, state: ClusterState, names: Sequence[str]) -> None:
        """Not the head alone, nor what is to take its place."""
        head, *backups = self.head_names(spec_of(state)) or ("",)
        nodes = {node.name for node in state.nodes_of(self.name)}
        with suppress(EngineError):  # what is recorded cannot be read: as if all nodes were here
            whole = recorded_whole(state)
            nodes |= {member.name for member in whole.members if member.role == self.name} if whole else set()
        staying = sorted(nodes - set(names))
        if staying and head in nodes & set(names):
            raise UsageError(
                f"{head} is the {self.head_title} of cluster {state.name}",
                evidence=f"its other nodes: {', '.join(staying)}",
                fix=f"remove the whole cluster: gpuprov cluster down {state.name}",
            )
        lost = sorted(set(backups) & nodes & set(names))
        if staying and lost:
            raise UsageError(
                f"{lost[0]} is the backup of {head}, the {self.head_title} of cluster {state.name}",
                evidence=f"the spec of cluster {state.name} names it",
                fix=name_cluster("name another node, or null, in the spec, and run gpuprov cluster up", state.name)
                + " -f FILE",
            )

    def diagnosed_node(self, state: ClusterState) -> NodeState:
        """The head, or what has taken its place; any node where they need none."""
        nodes = state.nodes_of(self.name)
        head = self.running_head(state) or self.head_name(spec_of(state))
        found = next((node for node in nodes if node.name == (head or node.name)), None)
        home = next((member.host for member in members_elsewhere(state) if member.name == head), "")
        if found is None and home:
            raise EngineError(
                f"the {self.head_title} of cluster {state.name} is not on this host",
                evidence=f"{head} is on {home}",
                fix=f"type the same command on {home}, or on the machine that knows all hosts",
            )
        if found is None:
            raise EngineError(
                f"cluster {state.name} has no {self.head_title}",
                evidence=f"it would be {head or 'any of its nodes'}, which does not exist",
                fix=name_cluster("gpuprov cluster up", state.name),
            )
        return found

    def running_head(self, state: ClusterState) -> str | None:
        """The node here that is to be asked: the head where it runs, else the first that runs of its backups."""
        running = {node.name for node in state.nodes_of(self.name) if node.status == "running"}
        return next((head for head in self.head_names(spec_of(state)) if head in running), None)

    def _way_to_a_head(self, state: ClusterState, head: str) -> str:
        """What to type where a cluster has no such nodes; it gets a head only if they are what its spec is about."""
        recorded = state.spec
        if state.node(head) or (recorded and recorded.nodes.role != self.name):
            return "use --role plain"
        return name_cluster(f"gpuprov cluster up{'' if recorded else ' -n 4'}, or use --role plain", state.name)


def apply_marked(
    driver: Driver,
    stale: Mapping[str, Sequence[File]],
    files: FilesOf,
    *,
    mark: str,
    own: tuple[str, ...],
    restart: Callable[[Mapping[str, frozenset[str]]], object],
) -> None:
    """Write the files, and restart what reads them.

    The digest of what the services have read is taken away first and written last, so that a run killed in between, or
    services that have read what somebody else wrote, are seen and repaired by the next.

    Args:
        driver: The engine.
        stale: By node, the files that it lacks or has otherwise.
        files: All files of a node as they are to be.
        mark: The path of the digest.
        own: What the paths of files begin with that the services read.
        restart: Is called with the nodes where some of these were lacking, and the paths.
    """
    lacking = {name: frozenset(file.path for file in lacked) for name, lacked in stale.items()}
    renewed = {name: paths for name, paths in lacking.items() if any(path.startswith(own) for path in paths)}
    each(lambda name: driver.push(name, [File(path=mark, content=b"")]), list(renewed))
    each(lambda name: driver.push(name, [file for file in stale[name] if file.path != mark]), list(stale))
    if renewed:
        restart(renewed)
        each(lambda name: driver.push(name, [file for file in files(name) if file.path == mark]), list(renewed))
