"""Roles whose nodes need one among them, as Slurm its controller and workers a broker; and files of their services."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from gpuprov.cluster.whole import is_elsewhere, members_elsewhere, recorded_whole
from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.names import name_cluster
from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import File
from gpuprov.roles.base import Role, spec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.roles.base import FilesOf
    from gpuprov.roles.crew import Crew
    from gpuprov.shapes.cluster_spec import ClusterSpec


class ControlledRole(Role):
    """A role with a controller: a node that the others need.

    Attributes:
        controller: What it is, in a word, such as `controller`.
        head_title: The same with what it belongs to.
    """

    controller: ClassVar[str]
    controller_title: ClassVar[str]

    @abstractmethod
    def controller_name(self, spec: ClusterSpec) -> str | None:
        """The name of the controller; None where the nodes need none."""

    def refuse_joining(self, node: str, spec: ClusterSpec, state: ClusterState) -> None:
        """A node joins a controller that runs, or is the controller."""
        controller = self.controller_name(spec)
        if controller is None:
            return
        nodes = state.nodes_of(self.name)
        if is_elsewhere(state, controller) or self.running_controller(state):
            return  # on another host, nobody here knows whether it runs
        if node != controller and not nodes:
            there = f"which is not a {self.title} node" if state.node(controller) else "but there is no such node"
            raise UsageError(
                f"cluster {spec.name} has no {self.controller_title} for {node} to join",
                evidence=f"its {self.controller} is {controller}, {there}",
                fix=self._way_to_a_controller(state, controller),
            )
        stopped = [one for one in nodes if one.name == controller and one.status != "running"]
        if stopped:
            raise UsageError(
                f"the {self.controller} {controller} of cluster {spec.name} is {stopped[0].status}",
                evidence=f"it runs the {self.controller_title}, and {node} has to reach it",
                fix=f"gpuprov start {controller}, or --role plain",
            )

    def begins_with(self, node: str, spec: ClusterSpec) -> bool:
        """With the controller."""
        return self.controller_name(spec) in (node, None)

    def refuse_crew(self, crew: Crew) -> None:
        """The nodes need their controller and those that are to take its place; so do nodes that the spec is to get."""
        names = [member.name for member in crew.of(self.name)]
        roles = {member.name: member.role for member in crew.members}
        for controller in self.controller_names(crew.spec):
            role = roles.get(controller, "")
            if controller in names or not (names or (role and crew.spec.nodes.role == self.name)):
                continue
            part = self.controller if controller == self.controller_name(crew.spec) else f"backup {self.controller}"
            spec = crew.spec
            again = name_cluster(f"{f'gpuprov rm {controller}; ' if role else ''}gpuprov cluster up", spec.name)
            other = f"create another cluster: gpuprov cluster up --name {spec.name[:20]}-{self.name} --role {self.name}"
            raise UsageError(
                f"cluster {spec.name} has no {part} for {self.title} nodes",
                evidence=f"the {part} is {controller}, which {f'has role {role!r:.60}' if role else 'does not exist'}",
                fix=f"{other}; or, if {controller} is not needed: {again}" if role else again,
            )

    def refuse_removing(self, state: ClusterState, names: Sequence[str]) -> None:
        """Not the controller alone, nor what is to take its place."""
        controller, *backups = self.controller_names(spec_of(state)) or ("",)
        nodes = {node.name for node in state.nodes_of(self.name)}
        with suppress(EngineError):  # what is recorded cannot be read: as if all nodes were here
            whole = recorded_whole(state)
            nodes |= {member.name for member in whole.members if member.role == self.name} if whole else set()
        staying = sorted(nodes - set(names))
        if staying and controller in nodes & set(names):
            raise UsageError(
                f"{controller} is the {self.controller_title} of cluster {state.name}",
                evidence=f"its other nodes: {', '.join(staying)}",
                fix=f"remove the whole cluster: gpuprov cluster down {state.name}",
            )
        lost = sorted(set(backups) & nodes & set(names))
        if staying and lost:
            raise UsageError(
                f"{lost[0]} is the backup of {controller}, the {self.controller_title} of cluster {state.name}",
                evidence=f"the spec of cluster {state.name} names it",
                fix=name_cluster("name another node, or null, in the spec, and run gpuprov cluster up", state.name)
                + " -f FILE",
            )

    def diagnosed_node(self, state: ClusterState) -> NodeState:
        """The controller, or what has taken its place; any node where they need none."""
        nodes = state.nodes_of(self.name)
        controller = self.running_controller(state) or self.controller_name(spec_of(state))
        found = next((node for node in nodes if node.name == (controller or node.name)), None)
        home = next((member.host for member in members_elsewhere(state) if member.name == controller), "")
        if found is None and home:
            raise EngineError(
                f"the {self.controller_title} of cluster {state.name} is not on this host",
                evidence=f"{controller} is on {home}",
                fix=f"type the same command on {home}, or on the machine that knows all hosts",
            )
        if found is None:
            raise EngineError(
                f"cluster {state.name} has no {self.controller_title}",
                evidence=f"there is no node {controller}" if controller else "it has no nodes",
                fix=name_cluster("gpuprov cluster up", state.name),
            )
        return found

    def running_controller(self, state: ClusterState) -> str | None:
        """The node here that is to be asked: the controller where it runs, else the first that runs of its backups."""
        running = {node.name for node in state.nodes_of(self.name) if node.status == "running"}
        return next((controller for controller in self.controller_names(spec_of(state)) if controller in running), None)

    def _way_to_a_controller(self, state: ClusterState, controller: str) -> str:
        """What to type where a cluster has no such nodes; it gets a controller only if its spec is about them."""
        recorded = state.spec
        if state.node(controller) or (recorded and recorded.nodes.role != self.name):
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
