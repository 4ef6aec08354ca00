"""The nodes of hosts as Ansible's inventory: what each host tells of its own, put together with the way to them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuprov.cluster.held_gpus import leased_uuids
from gpuprov.cluster.secrets import key_folder
from gpuprov.core.errors import GpuprovError
from gpuprov.core.names import CLUSTER
from gpuprov.drivers.base import LABEL_ACCESS, LABEL_DRIVER
from gpuprov.gpu.document import gpu_document
from gpuprov.lifecycle.rows import node_row
from gpuprov.shapes.base import write
from gpuprov.shapes.gpus import Mig, ToldGpu
from gpuprov.shapes.inventory import HostInventory, HostVariables, NodeVariables, ScriptPart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.drivers.base import NodeState
    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.shapes.choices import GpuMode

    Observe = Callable[[GpuMode], HostGpus]

CONNECTION = "gpuprov.cluster.gpuprov"
INTERPRETER = "/usr/bin/python3"
_TOLD = NodeVariables.__struct_fields__


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Hosts with their variables, and what Ansible's user should know.

    Attributes:
        hosts: Variables by node.
        warnings: What is left out, or not known, and why; each in three parts.
    """

    hosts: Mapping[str, HostVariables]
    warnings: tuple[str, ...] = ()

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Nodes by group: `cluster_`, `role_`, `engine_` and `gpu_` with what follows."""
        groups: dict[str, list[str]] = {}
        for name, node in self.hosts.items():
            keyed = [("cluster", node.gpuprov_cluster), ("engine", node.gpuprov_engine), ("role", node.gpuprov_role)]
            models = sorted({gpu.model for gpu in node.gpuprov_gpus if gpu.model})
            for prefix, value in (*keyed, *(("gpu", model) for model in models)):
                groups.setdefault(group_name(prefix, value), []).append(name)
        return {group: tuple(groups[group]) for group in sorted(groups)}


def tell_nodes(found: Sequence[tuple[str, NodeState]], observe_gpus: Observe) -> HostInventory:
    """What a host tells of its nodes, each of them with the name of its engine.

    A name that two engines have is left out: what one play did to the one node, it might do to the other.
    """
    counts = Counter(node.name for _, node in found)
    double = [name for name in counts if counts[name] > 1]
    warnings = [_twice(name, [engine for engine, node in found if node.name == name]) for name in double]
    nodes = sorted((pair for pair in found if pair[1].name not in double), key=lambda pair: pair[1].name)
    gpus, unknown = _known_gpus([node for _, node in nodes], observe_gpus)
    told = {node.name: _tell_node(node, engine, gpus) for engine, node in nodes}
    return HostInventory(nodes=told, warnings=(*warnings, *unknown))


def _tell_node(node: NodeState, engine: str, gpus: Mapping[str, Gpu]) -> NodeVariables:
    """What Ansible knows of a node; an address is empty where the node is not on that network."""
    row = node_row(node, "", engine=engine)
    return NodeVariables(
        gpuprov_address=row.address,
        gpuprov_cluster=row.cluster,
        gpuprov_driver=node.labels.get(LABEL_DRIVER, ""),
        gpuprov_engine=engine,  # type: ignore[arg-type]
        gpuprov_gpus=tuple(_tell_gpu(uuid, gpus.get(uuid)) for uuid in row.gpus),
        gpuprov_image=row.image,
        gpuprov_private_address=row.private_address,
        gpuprov_role=row.role,
        gpuprov_sharing=row.sharing,
        gpuprov_simulated=row.simulated,
        gpuprov_status=row.status,
    )


def _tell_gpu(uuid: str, gpu: Gpu | None) -> ToldGpu:
    told = gpu_document(uuid, gpu)
    return ToldGpu(**{**told, "mig": Mig(**told["mig"])})


def _known_gpus(nodes: Sequence[NodeState], observe_gpus: Observe) -> tuple[dict[str, Gpu], list[str]]:
    """GPUs by UUID, of the kinds that nodes hold; a host whose driver is broken still has an inventory."""
    modes: dict[GpuMode, bool] = {
        "simulated": any(node.labels.get(LABEL_ACCESS) == "simulated" for node in nodes),
        "real": any(node.labels.get(LABEL_ACCESS) not in ("simulated", "none", None) for node in nodes),
    }
    known: dict[str, Gpu] = {}
    warnings = []
    for mode, wanted in modes.items():
        if not wanted:
            continue
        try:
            host = observe_gpus(mode)
            known |= {gpu.uuid: gpu for gpu in host.units}
            known |= {
                uuid: known[host.current(uuid)]
                for node in nodes
                for uuid in leased_uuids(node)
                if host.current(uuid) in known
            }
        except GpuprovError as error:
            warnings.append(str(error))
    return known, warnings


def join_inventories(told: Mapping[str, HostInventory], here: str) -> Inventory:
    """The nodes of all hosts with the way to each; a name that two of them have is left out, as one of two engines is.

    A host that was added may be this machine itself: what is told twice alike is one node.

    Args:
        told: By host, that of this machine first.
        here: Which of them is this machine: its nodes are reached without another host.
    """
    hosts: dict[str, HostVariables] = {}
    warnings: list[str] = []
    homes: dict[str, list[str]] = {}
    for host, inventory in told.items():
        warnings += inventory.warnings if host == here else (f"{host}: {warning}" for warning in inventory.warnings)
        for name, node in inventory.nodes.items():
            if name not in hosts:
                hosts[name] = _with_way(name, node, host, is_here=host == here)
                homes[name] = ["this machine" if host == here else host]
            elif hosts[name].gpuprov_through or not _is_same(hosts[name], node):
                homes[name].append(host)
    for name, places in homes.items():
        if len(places) > 1:
            del hosts[name]
            warnings.append(
                f"the inventory omits {name}: nodes of several machines have that name\n"
                f"evidence: {' and '.join(places)} have it\n"
                "fix: give the clusters other node names: nodes.prefix in a spec"
            )
    return Inventory(hosts={name: hosts[name] for name in sorted(hosts)}, warnings=tuple(warnings))


def _is_same(one: NodeVariables, other: NodeVariables) -> bool:
    """Whether both are one node; those without GPUs look alike on any two hosts."""
    return all(getattr(one, key) == getattr(other, key) for key in _TOLD) and bool(one.gpuprov_gpus)


def _with_way(name: str, node: NodeVariables, host: str, *, is_here: bool) -> HostVariables:
    """The same with how this machine reaches it, which a host never says of itself."""
    keys = key_folder(node.gpuprov_cluster) if is_here and CLUSTER.fullmatch(node.gpuprov_cluster) else None
    options = f"-o UserKnownHostsFile={keys}/known_hosts -o StrictHostKeyChecking=accept-new -o IdentitiesOnly=yes"
    told: dict[str, Any] = {key: getattr(node, key) for key in _TOLD}
    return HostVariables(
        **told,
        ansible_connection=CONNECTION,
        ansible_host=node.gpuprov_address or name,
        ansible_python_interpreter=INTERPRETER,
        ansible_user="root",
        # For those who choose ansible_connection=ssh; a damaged label names no cluster, and so no keys.
        ansible_ssh_private_key_file=f"{keys}/id_ed25519" if keys else "",
        ansible_ssh_common_args=options if keys else "",
        gpuprov_host=host,
        gpuprov_through="" if is_here else host,
    )


def group_name(prefix: str, value: str) -> str:
    """A name that Ansible takes for a group: `gpu`, `NVIDIA H100 80GB` -> `gpu_nvidia_h100_80gb`."""
    return f"{prefix}_{re.sub(r'[^a-z0-9]+', '_', value.lower()).strip('_')}"


def _twice(name: str, engines: Sequence[str]) -> str:
    return (
        f"the inventory omits {name}: two engines have a node of that name\n"
        f"evidence: {' and '.join(engines)} have it\n"
        f"fix: gpuprov rm {name} --engine {engines[-1]}"
    )


def tell_script(inventory: Inventory) -> dict[str, ScriptPart]:
    """What an inventory script prints for `--list`."""
    groups = inventory.groups
    return {
        "_meta": ScriptPart(hostvars=inventory.hosts),
        "all": ScriptPart(children=("ungrouped", *groups)),
        **{group: ScriptPart(hosts=names) for group, names in groups.items()},
    }


def render_script(inventory: Inventory) -> dict[str, Any]:
    """The same, as Ansible reads it."""
    return {name: write(part) for name, part in tell_script(inventory).items()}


def render_graph(inventory: Inventory) -> str:
    """The groups and their hosts, as `ansible-inventory --graph` draws them."""
    lines = ["@all:", "  |--@ungrouped:"]
    for group, names in inventory.groups.items():
        lines += [f"  |--@{group}:", *(f"  |  |--{name}" for name in names)]
    return "\n".join(lines)
