"""The parts of a bundle that come through the engine: its state, its clusters' plans, and its nodes' logs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.services import init_of
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.bundle_parts import as_json
from gpuprov.core.errors import EngineError
from gpuprov.core.names import name_cluster
from gpuprov.documents.engine_state import (
    facts_document,
    found_images_document,
    found_networks_document,
    found_nodes_document,
    spec_document,
)
from gpuprov.documents.nodes import status_document
from gpuprov.drivers.base import LABEL_ROLE
from gpuprov.planes.across.rows import state_rows
from gpuprov.planes.registry import planes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.planes.base import Plane
    from gpuprov.provision.plane_recipe import Init
    from gpuprov.spec.models import ClusterSpec

    Parts = Mapping[str, Callable[[], str]]

_COMMAND_S = 20.0
# Part of any running node, and of one with that init, to the command that tells it. Where the init is runit, what
# services log is the node's console.
COMMANDS = {
    "devices.txt": "ls -l /dev/nvidia* /dev/nvidia-caps/* 2>&1 || true",
    "network.txt": "ip address; ip route; cat /etc/hosts",
}
INIT_COMMANDS: dict[Init, dict[str, str]] = {
    "systemd": {
        "journal.txt": "journalctl --no-pager --lines=2000 --output=short-iso",
        "units.txt": "systemctl is-system-running; systemctl list-units --failed --no-pager --plain",
    },
    "runit": {"units.txt": "sv status /etc/service/*"},
}


def engine_parts(driver: Driver, nodes: Sequence[NodeState], networks: Sequence[NetworkState]) -> Parts:
    """The engine's facts, and its objects by their labels and configuration; of foreign nodes where they are only."""
    engine, host = driver.name, driver.host
    return {
        f"{engine}/facts.json": lambda: as_json(facts_document(driver.facts(), host=host)),
        f"{engine}/nodes.json": lambda: as_json(found_nodes_document(nodes, engine=engine, host=host)),
        f"{engine}/networks.json": lambda: as_json(found_networks_document(networks, engine=engine, host=host)),
        f"{engine}/images.json": lambda: as_json(found_images_document(driver.list_images(), engine=engine, host=host)),
    }


def cluster_parts(
    driver: Driver, cluster: str, preview_changes: Callable[[ClusterSpec], Sequence[str]], *, host: str
) -> Parts:
    """A cluster's spec and status, and what `cluster up` would change in it, which `preview_changes` tells."""

    def plan() -> str:
        spec = observe_cluster(driver, cluster).spec
        if spec is None:
            raise EngineError(
                f"cluster {cluster} has no recorded spec",
                evidence="its first `cluster up` did not finish",
                fix=name_cluster("gpuprov cluster up", cluster),
            )
        return "".join(f"{line}\n" for line in preview_changes(spec)) or "nothing to do: the cluster matches its spec\n"

    def status() -> str:
        state = observe_cluster(driver, cluster)
        rows, folder = state_rows(driver, state), state.shared_folder
        return as_json(status_document(cluster, rows, host=host, shared_folder=folder))

    def plane_part(plane: Plane) -> str:
        state = observe_cluster(driver, cluster)
        return _tell(driver, plane.diagnosed_node(state), plane.diagnostics().cluster)

    state = observe_cluster(driver, cluster)
    planes = planes_of(node.labels.get(LABEL_ROLE, "") for node in state.nodes)
    return {
        f"{driver.name}/clusters/{cluster}/spec.json": lambda: as_json(
            spec_document(cluster, observe_cluster(driver, cluster).spec, host=host)
        ),
        f"{driver.name}/clusters/{cluster}/status.json": status,
        f"{driver.name}/clusters/{cluster}/plan.txt": plan,
        **{
            f"{driver.name}/clusters/{cluster}/{plane.name}.txt": partial(plane_part, plane)
            for plane in planes
            if plane.diagnostics().cluster
        },
    }


def node_parts(driver: Driver, node: NodeState) -> Parts:
    """A node's console, and where it runs its journal, its units and what its plane has."""
    parts: dict[str, Callable[[], str]] = {"console.txt": partial(driver.logs, node.name)}
    commands = {**COMMANDS, **INIT_COMMANDS[init_of(driver)]}
    for plane in planes_of([node.labels.get(LABEL_ROLE, "")]):
        commands |= plane.diagnostics().node
    parts |= {part: partial(_tell, driver, node, line) for part, line in commands.items()}
    return {f"{driver.name}/nodes/{node.name}/{part}": collect for part, collect in parts.items()}


def _tell(driver: Driver, node: NodeState, line: str) -> str:
    if node.status != "running":
        raise EngineError(
            f"node {node.name} is not running", evidence=f"it is {node.status}", fix=f"gpuprov start {node.name}"
        )
    result = driver.run(node.name, ["sh", "-c", line], timeout_s=_COMMAND_S)
    return f"$ {line}\n{result.stdout}{result.stderr}"
