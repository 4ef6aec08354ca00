"""The parts of a bundle that come through the engine: its state, its clusters' plans, and its nodes' logs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from msgspec import UNSET

from gpuprov.cluster.services import init_of
from gpuprov.cluster.state import observe_cluster, with_snapshots
from gpuprov.core.bundle_parts import as_json
from gpuprov.core.errors import EngineError
from gpuprov.core.names import name_cluster
from gpuprov.drivers.base import LABEL_ROLE
from gpuprov.lifecycle.engine_state import spec_document
from gpuprov.lifecycle.rows import state_rows
from gpuprov.roles.registry import roles_of
from gpuprov.shapes.base import of_object, write
from gpuprov.shapes.engine import (
    FactsOfEngine,
    FoundNetwork,
    FoundNode,
    ImagesOfEngine,
    NetworksOfEngine,
    NodesOfEngine,
)
from gpuprov.shapes.nodes import ClusterStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.provision.role_recipe import Init
    from gpuprov.roles.base import Role
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.cluster_spec import ClusterSpec

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
    engine, host = cast("Engine", driver.name), driver.host
    _network = partial(of_object, FoundNetwork)
    return {
        f"{engine}/facts.json": lambda: as_json(write(FactsOfEngine(host=host, facts=driver.facts()))),
        f"{engine}/nodes.json": lambda: as_json(
            write(NodesOfEngine(host=host, engine=engine, nodes=tuple(map(_found, with_snapshots(driver, nodes)))))
        ),
        f"{engine}/networks.json": lambda: as_json(
            write(NetworksOfEngine(host=host, engine=engine, networks=tuple(map(_network, networks))))
        ),
        f"{engine}/images.json": lambda: as_json(
            write(ImagesOfEngine(host=host, engine=engine, images=tuple(driver.list_images())))
        ),
    }


def _found(node: NodeState) -> FoundNode:
    """An instance; of a foreign one nothing that is its owner's business."""
    if node.ours:
        return of_object(FoundNode, node)
    copy_of = node.copy_of.name if node.copy_of else UNSET
    return FoundNode(name=node.name, status=node.status, addresses=node.addresses, copy_of=copy_of)


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
        return as_json(write(ClusterStatus(host=host, cluster=cluster, shared_folder=folder or None, nodes=rows)))

    def role_part(role: Role) -> str:
        state = observe_cluster(driver, cluster)
        return _tell(driver, role.diagnosed_node(state), role.diagnostics().cluster)

    state = observe_cluster(driver, cluster)
    roles = roles_of(node.labels.get(LABEL_ROLE, "") for node in state.nodes)
    return {
        f"{driver.name}/clusters/{cluster}/spec.json": lambda: as_json(
            spec_document(cluster, observe_cluster(driver, cluster).spec, host=host)
        ),
        f"{driver.name}/clusters/{cluster}/status.json": status,
        f"{driver.name}/clusters/{cluster}/plan.txt": plan,
        **{
            f"{driver.name}/clusters/{cluster}/{role.name}.txt": partial(role_part, role)
            for role in roles
            if role.diagnostics().cluster
        },
    }


def node_parts(driver: Driver, node: NodeState) -> Parts:
    """A node's console, and where it runs its journal, its units and what its role has."""
    parts: dict[str, Callable[[], str]] = {"console.txt": partial(driver.logs, node.name)}
    commands = {**COMMANDS, **INIT_COMMANDS[init_of(driver)]}
    for role in roles_of([node.labels.get(LABEL_ROLE, "")]):
        commands |= role.diagnostics().node
    parts |= {part: partial(_tell, driver, node, line) for part, line in commands.items()}
    return {f"{driver.name}/nodes/{node.name}/{part}": collect for part, collect in parts.items()}


def _tell(driver: Driver, node: NodeState, line: str) -> str:
    if node.status != "running":
        raise EngineError(
            f"node {node.name} is not running", evidence=f"it is {node.status}", fix=f"gpuprov start {node.name}"
        )
    result = driver.run(node.name, ["sh", "-c", line], timeout_s=_COMMAND_S)
    return f"$ {line}\n{result.stdout}{result.stderr}"
