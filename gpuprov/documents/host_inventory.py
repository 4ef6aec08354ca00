"""The nodes of one host for another host's inventory: told, read back, and put together with others.

A host says what its nodes are, and nothing of how to reach them: that this machine adds itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.documents.inventory import CONNECTION, INTERPRETER, Inventory, gpus_of, group_hosts
from gpuprov.host.remote.answers import read_answer
from gpuprov.shapes.base import write
from gpuprov.shapes.inventory import HostInventory, NodeVariables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.base import Told

_TOLD = NodeVariables.__struct_fields__


def tell_inventory(inventory: Inventory) -> HostInventory:
    """What `read_host_inventory` reads; for other hosts alone."""
    nodes = {
        name: NodeVariables(**{**{key: variables[key] for key in _TOLD}, "gpuprov_gpus": gpus_of(variables)})
        for name, variables in inventory.hosts.items()
    }
    return HostInventory(nodes=nodes, warnings=inventory.warnings)


def read_host_inventory(told: Told, host: str) -> Inventory:
    """The answer to `inventory`, with the way to each node: through its host.

    Raises:
        HostNotReady: It is none.
    """
    read = read_answer(HostInventory, told, host)
    hosts = {name: _variables(name, write(variables), host) for name, variables in read.nodes.items()}
    return Inventory(
        hosts=hosts, groups=group_hosts(hosts), warnings=tuple(f"{host}: {warning}" for warning in read.warnings)
    )


def _variables(name: str, told: Mapping[str, Any], host: str) -> dict[str, Any]:
    return {
        "ansible_connection": CONNECTION,
        "ansible_host": told["gpuprov_address"] or name,
        "ansible_python_interpreter": INTERPRETER,
        "ansible_user": "root",
        "ansible_ssh_private_key_file": "",
        "ansible_ssh_common_args": "",
        **told,
        "gpuprov_host": host,
        "gpuprov_through": host,
    }


def join_inventories(here: Inventory, others: Mapping[str, Inventory]) -> Inventory:
    """The nodes of this machine and of others; a name that two of them have is left out, as one of two engines is.

    A host of the list may be this machine itself: what is the same in all but the way to it is one node.
    """
    hosts: dict[str, Mapping[str, Any]] = dict(here.hosts)
    warnings = [*here.warnings]
    homes = dict.fromkeys(hosts, "this machine")
    double: dict[str, list[str]] = {}
    for host, inventory in others.items():
        warnings += inventory.warnings
        for name, variables in inventory.hosts.items():
            if name not in hosts:
                hosts[name], homes[name] = variables, host
            elif name not in here.hosts or not _same(hosts[name], variables):
                double.setdefault(name, [homes[name]]).append(host)
    for name, places in double.items():
        del hosts[name]
        warnings.append(
            f"the inventory omits {name}: nodes of several machines have that name\n"
            f"evidence: {' and '.join(places)} have it\n"
            "fix: give the clusters other node names: nodes.prefix in a spec"
        )
    ordered = {name: hosts[name] for name in sorted(hosts)}
    return Inventory(hosts=ordered, groups=group_hosts(ordered), warnings=tuple(warnings))


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one[key] == other[key] for key in _TOLD) and bool(one["gpuprov_gpus"])
