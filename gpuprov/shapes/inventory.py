"""The nodes of hosts for Ansible: as its inventory has them, and as one host tells them to another.

Ansible obeys variables of an inventory and carries out templates in them. So a host says what its nodes are, in words
without braces, and nothing of how to reach them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.choices import Engine
from gpuprov.shapes.gpus import ToldGpu
from gpuprov.shapes.words import Plain

Address = Annotated[str, Meta(pattern=r"^([0-9]{1,3}(\.[0-9]{1,3}){3})?\Z")]
ClusterName = Annotated[str, Meta(pattern=r"^([a-z]([a-z0-9-]{0,30}[a-z0-9])?)?\Z")]
NodeName = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")]
Lines = Annotated[str, Meta(pattern=r"^[^\x00-\x09\x0b-\x1f\x7f-\x9f]{0,10000}\Z")]


class NodeVariables(Shape, frozen=True, kw_only=True):
    """What a node is.

    Attributes:
        gpuprov_driver: Version of the NVIDIA driver that it was made for.
        gpuprov_sharing: `exclusive` or `shared`; empty where it holds no GPU.
    """

    gpuprov_address: Address
    gpuprov_cluster: ClusterName
    gpuprov_driver: Plain
    gpuprov_engine: Engine
    gpuprov_gpus: tuple[ToldGpu, ...]
    gpuprov_image: Plain
    gpuprov_private_address: Address
    gpuprov_role: Plain
    gpuprov_sharing: Plain
    gpuprov_simulated: bool
    gpuprov_status: Plain


class HostVariables(NodeVariables, frozen=True, kw_only=True):
    """The variables of a node.

    Attributes:
        gpuprov_host: Name of the host that it is on.
        gpuprov_through: The host through which gpuprov reaches it; empty for a node of this machine.
    """

    ansible_connection: str
    ansible_host: str
    ansible_python_interpreter: str
    ansible_user: str
    ansible_ssh_private_key_file: str
    ansible_ssh_common_args: str
    gpuprov_host: str
    gpuprov_through: str


class ScriptPart(Shape, frozen=True, kw_only=True):
    """What stands under a name in the answer of an inventory script.

    Attributes:
        hostvars: Under `_meta`.
        children: Under `all`: the groups.
        hosts: Under the name of a group.
    """

    hostvars: Mapping[str, HostVariables] | UnsetType = UNSET
    children: tuple[str, ...] | UnsetType = UNSET
    hosts: tuple[str, ...] | UnsetType = UNSET


class InventoryDocument(Document, frozen=True, kw_only=True, tag="gpuprov.inventory/v1"):
    """The document of `gpuprov inventory --json`; without `--json` its one part is printed bare, as Ansible reads it.

    Attributes:
        inventory: As an inventory script prints it for `--list`.
        groups: With `--graph`: group to its nodes.
        host: With `--host`: the variables of one node.
    """

    inventory: Mapping[str, ScriptPart] | UnsetType = UNSET
    groups: Mapping[str, tuple[str, ...]] | UnsetType = UNSET
    host: HostVariables | UnsetType = UNSET


class HostInventory(Document, frozen=True, kw_only=True, tag="gpuprov.host-inventory/v1"):
    """The nodes of a host for another host's Ansible inventory; told to other hosts alone.

    Attributes:
        nodes: Node to its variables, without those that say how to reach it.
        warnings: What is left out, and why.
    """

    nodes: Annotated[Mapping[NodeName, NodeVariables], Meta(max_length=10_000)]
    warnings: tuple[Lines, ...]
