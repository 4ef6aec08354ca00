"""What there is of a cluster: read from the engine's labels, never from a file of ours."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import fold, name_cluster
from gpuprov.core.nearest import ask_back, find_nearest
from gpuprov.core.side_by_side import ask_side_by_side
from gpuprov.drivers.base import LABEL_BEGUN, LABEL_CLUSTER, LABEL_GPUS, LABEL_ROLE, LABEL_SPEC
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.spec.serialize import load_spec_json
from gpuprov.spec.shared_folder import SHARED, folder_of
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.gpu.models import HostGpus
    from gpuprov.shapes.engine import ImageState


@dataclass(frozen=True, kw_only=True)
class ClusterState:
    """One cluster, and what else the engine holds.

    Attributes:
        recorded: What was last asked for, as recorded on its network; None if it was never brought up, and an error
            where the record cannot be read.
        settled: A spec with the values that no later run may choose anew; None where there is no such cluster. Of one
            that was not brought up yet, it has no more than these: those that its networks were made for.
        nodes: Its nodes, by name; incomplete ones too.
        others: Every other instance of the engine, ours or foreign.
        networks: Every network of the engine.
    """

    name: str
    recorded: ClusterSpec | SpecError | None
    settled: ClusterSpec | None
    nodes: tuple[NodeState, ...]
    others: tuple[NodeState, ...]
    networks: tuple[NetworkState, ...]

    @property
    def spec(self) -> ClusterSpec | None:
        """What was last asked for, for those who cannot go on without it.

        Raises:
            SpecError: It cannot be read.
        """
        if isinstance(self.recorded, SpecError):
            raise self.recorded
        return self.recorded

    @property
    def shared_folder(self) -> str:
        """The folder of the host that its nodes share; empty for none.

        Where no spec is recorded, as while its first nodes are made, its nodes tell it.
        """
        if isinstance(self.recorded, ClusterSpec):
            return folder_of(self.recorded)
        return next((mount.source for node in self.nodes for mount in node.mounts if mount.target == SHARED), "")

    @property
    def exists(self) -> bool:
        """Whether anything carries the cluster's label."""
        return bool(self.nodes or self.own_networks)

    @property
    def engine(self) -> EngineState:
        """All that the engine has."""
        return EngineState(nodes=(*self.nodes, *self.others), networks=self.networks)

    @property
    def own_networks(self) -> tuple[NetworkState, ...]:
        """The networks that were made for this cluster."""
        return tuple(network for network in self.networks if network.labels.get(LABEL_CLUSTER) == self.name)

    def nodes_of(self, role: str) -> tuple[NodeState, ...]:
        """The finished nodes of a role."""
        return tuple(node for node in self.nodes if node.complete and node.labels.get(LABEL_ROLE) == role)

    def node(self, name: str) -> NodeState | None:
        """A node of the cluster by name."""
        return next((node for node in self.nodes if node.name == name), None)

    def taken_addresses(self) -> dict[str, str]:
        """Addresses (without prefix length) that an instance's configuration fixes, each with its holder.

        A copy of a node holds its address only while it runs: what has been copied away for keeping is in nobody's way.
        """
        taken: dict[str, str] = {}
        for node in (*self.nodes, *self.others):
            if node.copy_of is not None and node.status == "stopped":
                continue
            holder = f"node {node.name}" if node.ours else f"the foreign instance {node.name}"
            holder += f", {node.copy_of}" if node.copy_of else ""
            taken |= {address.partition("/")[0]: holder for address in node.addresses.values()}
        return taken


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """All that an engine has, foreign things too.

    Attributes:
        built: The images that this run has built, by role.
    """

    nodes: tuple[NodeState, ...]
    networks: tuple[NetworkState, ...]
    built: Mapping[str, ImageState] = field(default_factory=dict)

    def clusters_of(self, names: Collection[str]) -> set[str]:
        """The clusters of those of these nodes that are there, and ours."""
        return {node.labels[LABEL_CLUSTER] for node in self.nodes if node.ours and node.name in names}

    def node(self, name: str) -> NodeState | None:
        """An instance by name."""
        return next((node for node in self.nodes if node.name == name), None)

    def cluster(self, name: str) -> ClusterState:
        """One cluster of it."""
        labels = [network.labels for network in self.networks if network.labels.get(LABEL_CLUSTER) == name]
        recorded = _read_spec(next(filter(None, (each.get(LABEL_SPEC) for each in labels)), None), name)
        begun = (_read_spec(each.get(LABEL_BEGUN), name) for each in labels)
        return ClusterState(
            name=name,
            recorded=recorded,
            settled=next((spec for spec in (recorded, *begun) if isinstance(spec, ClusterSpec)), None),
            nodes=tuple(node for node in self.nodes if node.labels.get(LABEL_CLUSTER) == name),
            others=tuple(node for node in self.nodes if node.labels.get(LABEL_CLUSTER) != name),
            networks=self.networks,
        )


def observe_engine(driver: Driver, *, networks: Sequence[NetworkState] | None = None) -> EngineState:
    """Read all that an engine has: two calls to it, side by side.

    Args:
        driver: The engine.
        networks: All networks of the engine, where the caller knows that they are as they were; LXD takes a second to
            list twenty.
    """
    nodes: list[NodeState] = []
    listed: list[NetworkState] = []
    questions = [lambda: nodes.extend(driver.list_nodes())]
    if networks is None:
        questions.append(lambda: listed.extend(driver.list_networks()))
    ask_side_by_side(questions, workers=len(questions))
    nodes.sort(key=lambda node: node.name)
    return EngineState(nodes=tuple(nodes), networks=tuple(listed if networks is None else networks))


def observe_cluster(driver: Driver, name: str, *, networks: Sequence[NetworkState] | None = None) -> ClusterState:
    """Read a cluster's state, with all else that the engine has."""
    return observe_engine(driver, networks=networks).cluster(name)


def _read_spec(text: str | None, cluster: str) -> ClusterSpec | SpecError | None:
    """The error is kept, and not raised: most of what is done with a cluster needs its labels and not its spec."""
    try:
        return load_spec_json(text, cluster=cluster) if text else None
    except SpecError as error:
        return error


def with_current_gpus(state: ClusterState, gpus: HostGpus) -> ClusterState:
    """The state with the UUIDs of simulated GPUs as the host gives them now; an earlier gpuprov gave others."""

    def renamed(nodes: Iterable[NodeState]) -> tuple[NodeState, ...]:
        return tuple(
            changed(
                node,
                labels={**node.labels, LABEL_GPUS: ",".join(map(gpus.current, node.labels[LABEL_GPUS].split(",")))},
            )
            if node.labels.get(LABEL_GPUS)
            else node
            for node in nodes
        )

    return replace(state, nodes=renamed(state.nodes), others=renamed(state.others))


def pick_nodes(state: ClusterState, names: Sequence[str] | None, *, verb: str) -> tuple[NodeState, ...]:
    """The nodes of these names, or all of them.

    Args:
        state: The cluster.
        names: Which; None for all.
        verb: What the user typed, such as `gpuprov verify`.

    Raises:
        UsageError: One is not there, or the cluster has none at all; the error names where there is one.
    """
    holders = {node.name: node.labels[LABEL_CLUSTER] for node in state.others if LABEL_CLUSTER in node.labels}
    there = [node.name for node in state.nodes]
    strangers = sorted(set(names or ()) - set(there))
    elsewhere = sorted({holders[name] for name in strangers if name in holders})
    others = sorted(set(holders.values()) - {state.name})
    mine = f"its nodes: {fold(there)}" if there else f"the cluster {state.name} has no nodes"
    if strangers:
        evidence = (
            f"{mine}; nodes of cluster {elsewhere[0]}: {fold([name for name in strangers if name in holders])}"
            if elsewhere
            else mine
        )
        near = find_nearest(strangers[0], there) or there[0] if there else ""
        fix = f"{verb} --cluster {state.name} {near}" if near else "gpuprov list"
        if elsewhere:
            fix = f"{verb} --cluster {elsewhere[0]} {strangers[0]}"
        meant = "" if elsewhere else ask_back(strangers, there)
        what = f"the cluster {state.name} has no node {', '.join(strangers)}{meant}"
        raise UsageError(what, evidence=evidence, fix=fix)
    if not there:
        evidence = f"other clusters: {', '.join(others)}" if others else "no instance has its label"
        near = find_nearest(state.name, others)
        chosen = near or (others[0] if len(others) == 1 else "NAME")
        fix = f"{verb} --cluster {chosen}" if others else name_cluster("gpuprov cluster up -n 4", state.name)
        what = f"the cluster {state.name} has no nodes{ask_back([state.name], others)}"
        raise UsageError(what, evidence=evidence, fix=fix)
    return tuple(node for node in state.nodes if names is None or node.name in names)


def with_snapshots(driver: Driver, nodes: Iterable[NodeState]) -> list[NodeState]:
    """These nodes with their snapshots, which a list of all nodes may lack."""
    return [driver.find_node(node.name) or node for node in nodes]
