"""The nodes of one host for another host's inventory: told, read back strictly, and put together with others.

Ansible obeys variables of an inventory and carries out templates in them. So a host says what its nodes are, in words
without braces, and nothing of how to reach them: that this machine adds itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.answer_kinds import fields_of, is_bool, items_of, matches, number_in, or_none, pick
from gpuprov.core.names import CLUSTER
from gpuprov.documents.envelope import document
from gpuprov.documents.inventory import CONNECTION, INTERPRETER, Inventory, group_hosts
from gpuprov.documents.member_answers import strictly
from gpuprov.spec.models import ENGINES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.answer_kinds import Accepts

_SCHEMA: Final = "gpuprov.host-inventory/v1"
_MOST_NODES: Final = 10_000
_NODE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_WORD: Final = matches(re.compile(r"[^{}\x00-\x1f\x7f-\x9f]{0,300}"))
_LINES: Final = re.compile(r"[^\x00-\x09\x0b-\x1f\x7f-\x9f]{0,10000}")
_ADDRESS: Final = matches(re.compile(r"([0-9]{1,3}(\.[0-9]{1,3}){3})?", re.ASCII))
_FEW: Final = or_none(number_in(0, 1_000_000))
_MAPPING: Final[Accepts] = lambda value: isinstance(value, dict)  # noqa: E731 - a kind, as those beside it
_GPU: Final[Mapping[str, Accepts]] = {
    "uuid": matches(re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]{1,80}", re.ASCII)),
    **dict.fromkeys(("label", "device", "pci", "model"), or_none(_WORD)),
    **dict.fromkeys(("index", "minor"), _FEW),
    "mig": _MAPPING,
    "memory_bytes": or_none(number_in(0, 2**63)),
    "compute_capability": or_none(matches(re.compile(r"[0-9]{1,3}\.[0-9]{1,3}", re.ASCII))),
}
_MIG: Final[Mapping[str, Accepts]] = {
    "enabled": or_none(is_bool),
    **dict.fromkeys(("index", "gpu_instance", "compute_instance"), _FEW),
}
_NODE_KINDS: Final[Mapping[str, Accepts]] = {
    "gpuprov_address": _ADDRESS,
    "gpuprov_cluster": lambda value: value == "" or matches(CLUSTER)(value),
    "gpuprov_engine": lambda value: value in ENGINES,
    "gpuprov_gpus": lambda value: isinstance(value, list) and all(map(_is_gpu, value)),
    "gpuprov_private_address": _ADDRESS,
    "gpuprov_simulated": is_bool,
    **dict.fromkeys([f"gpuprov_{key}" for key in ("driver", "image", "role", "sharing", "status")], _WORD),
}


def host_inventory_document(inventory: Inventory) -> dict[str, Any]:
    """What `read_host_inventory` reads; for other hosts alone."""
    nodes = {name: {key: variables[key] for key in sorted(_NODE_KINDS)} for name, variables in inventory.hosts.items()}
    return document("host-inventory", nodes=nodes, warnings=list(inventory.warnings))


def read_host_inventory(told: Mapping[str, Any], host: str) -> Inventory:
    """The answer to `inventory`, with the way to each node: through its host.

    Raises:
        HostNotReady: It is none.
    """
    return strictly(lambda: _read(told, host), host)


def _read(told: Mapping[str, Any], host: str) -> Inventory:
    nodes, warnings = fields_of(told, _SCHEMA, {"nodes": _MAPPING, "warnings": items_of(matches(_LINES))})
    if len(nodes) > _MOST_NODES or not all(map(_NODE.fullmatch, nodes)):
        raise ValueError("a node has an impossible name, or there are too many")
    hosts = {name: _variables(name, variables, host) for name, variables in nodes.items()}
    return Inventory(
        hosts=hosts, groups=group_hosts(hosts), warnings=tuple(f"{host}: {warning}" for warning in warnings)
    )


def _variables(name: str, told: object, host: str) -> dict[str, Any]:
    values = dict(zip(_NODE_KINDS, pick(told, _NODE_KINDS), strict=True))
    return {
        "ansible_connection": CONNECTION,
        "ansible_host": values["gpuprov_address"] or name,
        "ansible_python_interpreter": INTERPRETER,
        "ansible_user": "root",
        "ansible_ssh_private_key_file": "",
        "ansible_ssh_common_args": "",
        **values,
        "gpuprov_host": host,
        "gpuprov_through": host,
    }


def _is_gpu(told: object) -> bool:
    try:
        pick(told, _GPU)
        pick(told["mig"], _MIG)  # type: ignore[index]  # it is a mapping
    except ValueError:
        return False
    return True


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
    return all(one[key] == other[key] for key in _NODE_KINDS) and bool(one["gpuprov_gpus"])
