"""What an engine has, as a bundle and other hosts are told it: its facts, and its objects as it shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import UNSET, UnsetType

from gpuprov.shapes.base import PartDocument, Shape
from gpuprov.shapes.choices import Engine
from gpuprov.shapes.node import CharDevice, Exposure, Mount, NodeLimits, NodeStatus, Setting
from gpuprov.shapes.words import Number, Size, Word, Words


class EngineCluster(Shape, frozen=True, kw_only=True):
    """A cluster of its own that an engine is a member of.

    Attributes:
        member: What this host is called in it.
        members: Names of all members.
        away: Those that the engine does not reach.
    """

    member: Word
    members: tuple[Word, ...]
    away: tuple[Word, ...] = ()


class EngineFacts(Shape, frozen=True, kw_only=True):
    """What the engine says of itself and of the machine it runs on.

    Attributes:
        gpu_access: Ways by which it can hand GPUs in itself, the preferred one first, and how that was seen.
        systemd_cgroups: Whether systemd applies its nodes' device rules.
        cluster: The LXD or Incus cluster that it is a member of; null where it is in none.
    """

    name: Engine
    version: Word
    api: Word
    storage: Word
    copy_on_write: bool
    cpus: Number
    memory_bytes: Size
    free_bytes: Size | None = None
    gpu_access: Mapping[Literal["cdi", "nvidia-runtime"], Words] = {}
    systemd_cgroups: bool = False
    cluster: EngineCluster | None = None


class FoundNode(Shape, frozen=True, kw_only=True):
    """An instance; of one that gpuprov did not make nothing is told that is its owner's business.

    Attributes:
        addresses: Interface to address.
        host: Name of the host that it is on.
        settings: The engine's own settings that gpuprov made.
        id: The engine's own name for this very instance.
        copy_of: The node that it is a copy of; null of a node of ours.
        member: Set if it is on another member of the engine's cluster: which one. Only its name is told then.
    """

    name: str
    status: NodeStatus
    addresses: Mapping[str, str]
    host: str | UnsetType = UNSET
    labels: Mapping[str, str] | UnsetType = UNSET
    devices: tuple[CharDevice, ...] | UnsetType = UNSET
    mounts: tuple[Mount, ...] | UnsetType = UNSET
    exposed: tuple[Exposure, ...] | UnsetType = UNSET
    snapshots: tuple[str, ...] | UnsetType = UNSET
    privileged: bool | UnsetType = UNSET
    environment: Mapping[str, str] | UnsetType = UNSET
    settings: Mapping[str, Setting] | UnsetType = UNSET
    limits: NodeLimits | UnsetType = UNSET
    id: str | UnsetType = UNSET
    copy_of: str | UnsetType | None = UNSET
    member: str | UnsetType = UNSET


class Origin(Shape, frozen=True, kw_only=True):
    """Whose labels something has that was copied or renamed outside gpuprov; it is foreign.

    Attributes:
        name: Of the node, network or image; empty where the labels do not tell.
        cluster: That the labels name.
    """

    name: str
    cluster: str = ""

    def __str__(self) -> str:
        return f"a copy of {self.name or 'another node'}"


class FoundNetwork(Shape, frozen=True, kw_only=True):
    """A network.

    Attributes:
        managed: Whether the engine made it.
        address: Of the host in it, with prefix length.
        isolated: Whether the host refuses connections to its nodes from elsewhere; null if unknown.
        guarded: Whether its nodes reach no more of the host than they may; null if unknown.
        refused: Packets of its nodes to the host that were refused; null if unknown.
        copy_of: Whose labels it has, where it was copied or renamed outside gpuprov.
        joinable: The cluster over hosts for which only other members of the engine's cluster have it; else empty.
    """

    name: str
    managed: bool
    address: str | None = None
    labels: Mapping[str, str] = {}
    settings: Mapping[str, Setting] = {}
    subnets: tuple[str, ...] = ()
    isolated: bool | None = None
    guarded: bool | None = None
    refused: Size | None = None
    copy_of: Origin | None = None
    joinable: str = ""


class ImageState(Shape, frozen=True, kw_only=True):
    """An image that gpuprov made."""

    id: str
    name: str
    labels: Mapping[str, str] = {}
    size_bytes: Size | None = None
    created: str = ""


class FactsOfEngine(PartDocument, frozen=True, kw_only=True, tag="gpuprov.engine-facts/v1"):
    """What an engine says of itself and its machine, as ENGINE/facts.json in a bundle tells it.

    Attributes:
        host: Name of the host.
    """

    host: str
    facts: EngineFacts


class NodesOfEngine(PartDocument, frozen=True, kw_only=True, tag="gpuprov.engine-nodes/v1"):
    """Every instance of an engine, as ENGINE/nodes.json in a bundle tells it.

    Attributes:
        host: Name of the host.
    """

    host: str
    engine: Engine
    nodes: tuple[FoundNode, ...]


class NetworksOfEngine(PartDocument, frozen=True, kw_only=True, tag="gpuprov.engine-networks/v1"):
    """Every network that an engine shows, as ENGINE/networks.json in a bundle tells it.

    Attributes:
        host: Name of the host.
    """

    host: str
    engine: Engine
    networks: tuple[FoundNetwork, ...]


class ImagesOfEngine(PartDocument, frozen=True, kw_only=True, tag="gpuprov.engine-images/v1"):
    """The images of an engine that gpuprov made, as ENGINE/images.json in a bundle tells it.

    Attributes:
        host: Name of the host.
    """

    host: str
    engine: Engine
    images: tuple[ImageState, ...]
