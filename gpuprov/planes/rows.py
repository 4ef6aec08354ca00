"""`cluster status` and `list`: what the engine and Slurm say of the nodes; reads only."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.cluster.design import gpu_paths
from gpuprov.cluster.leases import leased_uuids
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import GpuprovError
from gpuprov.drivers.base import LABEL_ACCESS, LABEL_CLUSTER, LABEL_IMAGE, LABEL_ROLE, LABEL_SHARING
from gpuprov.planes.slurm import control as slurm
from gpuprov.spec.models import ClusterSpec

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver, NodeState


@dataclass(frozen=True, kw_only=True)
class NodeRow:
    """One node, as tables and JSON show it.

    Attributes:
        gpus: UUIDs of the leased GPUs.
        devices: Paths of the leased GPUs in the node.
        simulated: Whether these GPUs are simulated.
        slurm: Slurm's word for the node; empty where it has none.
        health: `ok`, or what is wrong.
    """

    name: str
    cluster: str
    engine: str
    role: str
    status: str
    address: str
    private_address: str
    gpus: tuple[str, ...]
    devices: tuple[str, ...]
    sharing: str
    simulated: bool
    slurm: str
    health: str
    image: str


def cluster_status(driver: Driver, name: str) -> tuple[NodeRow, ...]:
    """Every node of a cluster with Slurm's view of it."""
    state = observe_cluster(driver, name)
    spec = state.spec or ClusterSpec(name=name)
    controller = state.node(slurm.controller_name(spec))
    states: dict[str, str] = {}
    if controller is not None and controller.status == "running" and controller in state.slurm_nodes:
        with suppress(GpuprovError):  # a controller that does not answer shows as nodes that Slurm says nothing of
            states = slurm.node_states(driver, controller.name)
    return tuple(describe(node, states.get(node.name, ""), engine=driver.name) for node in state.nodes)


def list_rows(driver: Driver, *, everything: bool) -> tuple[NodeRow, ...]:
    """Nodes of all clusters; with `everything`, foreign instances too."""
    found = sorted(driver.list_nodes(), key=lambda node: node.name)
    return tuple(describe(node, "", engine=driver.name) for node in found if node.ours or everything)


def describe(node: NodeState, slurm_state: str, *, engine: str) -> NodeRow:
    """A node as tables and JSON show it."""
    return NodeRow(
        name=node.name,
        cluster=node.labels.get(LABEL_CLUSTER, "(foreign)"),
        engine=engine,
        role=node.labels.get(LABEL_ROLE, ""),
        status=node.status,
        address=node.addresses.get("eth0", "").partition("/")[0],
        private_address=node.addresses.get("eth1", "").partition("/")[0],
        gpus=leased_uuids(node),
        devices=gpu_paths(node.devices),
        sharing=node.labels.get(LABEL_SHARING, "") if leased_uuids(node) else "",
        simulated=node.labels.get(LABEL_ACCESS) == "simulated",
        slurm=slurm_state,
        health=_health(node, slurm_state),
        image=node.labels.get(LABEL_IMAGE, ""),
    )


def _health(node: NodeState, slurm_state: str) -> str:
    if not node.ours:
        return ""
    if not node.complete:
        return "unfinished: gpuprov cluster up"
    if node.status != "running":
        return f"{node.status}: gpuprov start {node.name}"
    if slurm_state and not slurm.is_ready(slurm_state):
        return f"Slurm reports {slurm_state}: gpuprov cluster up"
    return "ok"
