"""The nodes of every engine as Ansible's inventory: hosts, their variables and groups, read from labels."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuprov.cluster.held_gpus import leased_uuids
from gpuprov.cluster.secrets import key_folder
from gpuprov.core.errors import GpuprovError
from gpuprov.core.names import CLUSTER
from gpuprov.drivers.base import LABEL_ACCESS, LABEL_DRIVER
from gpuprov.gpu.document import gpu_document
from gpuprov.planes.across.rows import node_row
from gpuprov.shapes.gpus import Mig, ToldGpu
from gpuprov.shapes.inventory import HostVariables, ScriptPart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.drivers.base import NodeState
    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.shapes.choices import GpuMode

    Observe = Callable[[GpuMode], HostGpus]

CONNECTION = "gpuprov.cluster.gpuprov"
INTERPRETER = "/usr/bin/python3"


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Hosts with their variables, groups with their hosts, and what Ansible's user should know.

    Attributes:
        hosts: Variables by node.
        groups: Nodes by group: `cluster_`, `role_`, `engine_` and `gpu_` with what follows.
        warnings: What is left out, or not known, and why; each in three parts.
    """

    hosts: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, tuple[str, ...]]
    warnings: tuple[str, ...] = field(default=())


def build_inventory(found: Sequence[tuple[str, NodeState]], observe_gpus: Observe, *, host: str) -> Inventory:
    """Put nodes, each with the name of its engine, into an inventory.

    A name that two engines have is left out: what one play did to the one node, it might do to the other.
    """
    counts = Counter(node.name for _, node in found)
    double = [name for name in counts if counts[name] > 1]
    warnings = [_twice(name, [engine for engine, node in found if node.name == name]) for name in double]
    nodes = sorted((pair for pair in found if pair[1].name not in double), key=lambda pair: pair[1].name)
    gpus, unknown = _known_gpus([node for _, node in nodes], observe_gpus)
    hosts = {node.name: host_variables(node, engine, gpus, host=host) for engine, node in nodes}
    return Inventory(hosts=hosts, groups=group_hosts(hosts), warnings=(*warnings, *unknown))


def host_variables(node: NodeState, engine: str, gpus: Mapping[str, Gpu], *, host: str) -> dict[str, Any]:
    """What Ansible knows of a node; an address is empty where the node is not on that network."""
    row = node_row(node, "", engine=engine)
    return {
        "ansible_connection": CONNECTION,
        "ansible_host": row.address or row.name,
        "ansible_python_interpreter": INTERPRETER,
        "ansible_user": "root",
        **_ssh_variables(row.cluster),
        "gpuprov_address": row.address,
        "gpuprov_cluster": row.cluster,
        "gpuprov_driver": node.labels.get(LABEL_DRIVER, ""),
        "gpuprov_engine": engine,
        "gpuprov_gpus": [gpu_document(uuid, gpus.get(uuid)) for uuid in row.gpus],
        "gpuprov_host": host,
        "gpuprov_image": row.image,
        "gpuprov_private_address": row.private_address,
        "gpuprov_role": row.role,
        "gpuprov_sharing": row.sharing,
        "gpuprov_simulated": row.simulated,
        "gpuprov_status": row.status,
        "gpuprov_through": "",
    }


def _ssh_variables(cluster: str) -> dict[str, str]:
    """For those who choose ansible_connection=ssh; empty where a damaged label names no cluster, and so no keys."""
    keys = key_folder(cluster) if CLUSTER.fullmatch(cluster) else None
    options = f"-o UserKnownHostsFile={keys}/known_hosts -o StrictHostKeyChecking=accept-new -o IdentitiesOnly=yes"
    return {
        "ansible_ssh_private_key_file": f"{keys}/id_ed25519" if keys else "",
        "ansible_ssh_common_args": options if keys else "",
    }


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


def group_hosts(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """The groups of nodes with these variables."""
    groups: dict[str, list[str]] = {}
    for name, variables in hosts.items():
        models = {gpu["model"] for gpu in variables["gpuprov_gpus"] if gpu["model"]}
        keyed = [(key, variables[f"gpuprov_{key}"]) for key in ("cluster", "engine", "role")]
        for prefix, value in (*keyed, *(("gpu", model) for model in sorted(models))):
            groups.setdefault(group_name(prefix, value), []).append(name)
    return {group: tuple(groups[group]) for group in sorted(groups)}


def of_cluster(inventory: Inventory, cluster: str) -> Inventory:
    """The nodes of one cluster."""
    hosts = {name: variables for name, variables in inventory.hosts.items() if variables["gpuprov_cluster"] == cluster}
    return Inventory(hosts=hosts, groups=group_hosts(hosts), warnings=inventory.warnings)


def group_name(prefix: str, value: str) -> str:
    """A name that Ansible takes for a group: `gpu`, `NVIDIA H100 80GB` -> `gpu_nvidia_h100_80gb`."""
    return f"{prefix}_{re.sub(r'[^a-z0-9]+', '_', value.lower()).strip('_')}"


def _twice(name: str, engines: Sequence[str]) -> str:
    return (
        f"the inventory omits {name}: two engines have a node of that name\n"
        f"evidence: {' and '.join(engines)} have it\n"
        f"fix: gpuprov rm {name} --engine {engines[-1]}"
    )


def render_script(inventory: Inventory) -> dict[str, Any]:
    """What `--list` of an inventory script prints."""
    return {
        "_meta": {"hostvars": dict(inventory.hosts)},
        "all": {"children": ["ungrouped", *inventory.groups]},
        **{group: {"hosts": list(names)} for group, names in inventory.groups.items()},
    }


def gpus_of(variables: Mapping[str, Any]) -> tuple[ToldGpu, ...]:
    """The GPUs of a node."""
    return tuple(ToldGpu(**{**gpu, "mig": Mig(**gpu["mig"])}) for gpu in variables["gpuprov_gpus"])


def tell_variables(variables: Mapping[str, Any]) -> HostVariables:
    """The variables of a node, as a document tells them."""
    return HostVariables(**{**variables, "gpuprov_gpus": gpus_of(variables)})


def tell_script(inventory: Inventory) -> dict[str, ScriptPart]:
    """What `render_script` gives, as a document tells it."""
    hostvars = {name: tell_variables(variables) for name, variables in inventory.hosts.items()}
    return {
        "_meta": ScriptPart(hostvars=hostvars),
        "all": ScriptPart(children=("ungrouped", *inventory.groups)),
        **{group: ScriptPart(hosts=names) for group, names in inventory.groups.items()},
    }


def render_graph(inventory: Inventory) -> str:
    """The groups and their hosts, as `ansible-inventory --graph` draws them."""
    lines = ["@all:", "  |--@ungrouped:"]
    for group, names in inventory.groups.items():
        lines += [f"  |--@{group}:", *(f"  |  |--{name}" for name in names)]
    return "\n".join(lines)
