"""What hosts tell each other of a cluster that spans them: their parts of it, what they offer, their nodes.

A spec and the nodes of all hosts stay text when a part is read: every host tells the same, and it is read once.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, UnsetType, field

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.choices import Engine
from gpuprov.shapes.node import Mount, NodeStatus
from gpuprov.shapes.nodes import NodeRow
from gpuprov.shapes.whole import TunnelKeyIfAny, WholeCluster
from gpuprov.shapes.words import Word, Words

TunnelKey = Annotated[str, Meta(pattern=r"^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=\Z")]
ObjectIfAny = Annotated[Raw, Meta(extra_json_schema={"type": ["object", "null"]})]
NOTHING = Raw(b"null")
User = Annotated[int, Meta(ge=0, le=2**32)]


class Room(Shape, frozen=True, kw_only=True):
    """What a host has left for more nodes; null where nothing limits them.

    Attributes:
        nodes: How many more the kernel's limits carry.
        memory_bytes: That no node was promised.
        disk_bytes: Free in the engine's storage.
    """

    nodes: int | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None


class Offer(Shape, frozen=True, kw_only=True):
    """A host as placement sees it, which knows it by this alone.

    Attributes:
        host: Its name.
        nodes: Names of the cluster's nodes there.
        size: How many GPUs a new one holds there.
        more: For how many more of them its GPUs suffice.
        unshared: Its GPUs that they may take, less one for each node of the cluster that holds one.
        free: Its GPUs that they may take, less one for each holder that these have.
        gpus: Its GPUs of the kind that they request, held or not.
        lack: Why no such node can be there; empty where one can.
    """

    host: Word
    nodes: tuple[Word, ...] = ()
    size: int = 0
    more: int = 0
    unshared: int = 0
    free: int = 0
    gpus: int = 0
    room: Room = field(default_factory=Room)
    lack: Words = ""


class ToldLink(Shape, frozen=True, kw_only=True):
    """An IPv4 network that the host reaches."""

    interface: Word
    network: Word
    address: Word | None


class ToldTaken(Shape, frozen=True, kw_only=True):
    """What a new cluster has to keep clear of.

    Attributes:
        names: Interfaces and networks.
        prefixes: Of node names.
    """

    names: tuple[Word, ...]
    links: tuple[ToldLink, ...]
    nodes: tuple[Word, ...]
    prefixes: tuple[Word, ...]


class Refusal(Shape, frozen=True, kw_only=True):
    """Why a host does not do something, or cannot: that it has no engine for a cluster, nor anything of it."""

    what: Words
    evidence: Words
    fix: Words


class PartOfHost(Document, frozen=True, kw_only=True, tag="gpuprov.host-part/v1"):
    """What a host has of a cluster that spans hosts, and offers to more nodes of it; told to other hosts alone.

    Attributes:
        host: Name of the host.
        known_as: Its name in the cluster, as recorded; empty where nothing is.
        exists: Whether anything of the cluster is there.
        record: Fingerprint of what is recorded of the whole cluster, which `record` tells; empty where nothing is.
        words: Node to its role's word for it, also for nodes on other hosts.
        offer: For how many more nodes there is room; null if that was not asked.
        address: On the network between the hosts; empty if that was not asked.
        mtu: Of the link with that address.
        tunnel_key: Its public key for the encrypted overlay; empty where it has none, or that was not asked.
        copies: A sentence for each copy of a node that gpuprov did not make.
        full_disks: A sentence for each disk that is nearly full, where that was asked.
        no_engine: Why it has no engine for the cluster; null where it has one.
        changed: In the answer to `ready`: a line for each change.
    """

    host: Word
    engine: Engine
    known_as: Word
    exists: bool
    record: Word
    nodes: tuple[NodeRow, ...]
    words: Mapping[str, Words]
    offer: Offer | None
    address: Word
    mtu: Annotated[int, Meta(ge=0, le=100_000)]
    tunnel_key: TunnelKeyIfAny
    taken: ToldTaken
    copies: tuple[Words, ...] = ()
    full_disks: tuple[Words, ...] = ()
    no_engine: Refusal | None
    changed: tuple[Words, ...] | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse what is no address."""
        if self.address:
            IPv4Address(self.address)


class ClusterRecord(Document, frozen=True, kw_only=True, tag="gpuprov.cluster-record/v1"):
    """What a host has recorded of a whole cluster that spans hosts; told to other hosts alone.

    Attributes:
        host: Name of the host.
        spec: Of the whole cluster; null where there is none.
        whole: The nodes of all hosts; null where none are recorded.
    """

    host: Word
    spec: ObjectIfAny
    whole: ObjectIfAny


class ShareLook(Document, frozen=True, kw_only=True, tag="gpuprov.share-look/v1"):
    """What a host sees where the nodes of all hosts of a cluster are to share a folder; told to other hosts alone.

    Attributes:
        host: Name of the host.
        kind: What stands at the path.
        at: The path that is of this kind: that of the folder, or of a link or a file on the way to it.
        owner: User of the host to whom the folder belongs.
        account: User of the host that the account of the nodes is.
        filesystem: Kind and source of the file system that it is on; empty if unknown.
        mark: What is read under the name of the mark that was to be taken; of marks that were left, the first; empty if
            there is none.
        empty: Whether nothing but marks is in the folder, as far as the host's root can see.
    """

    host: Word
    kind: Literal["absent", "folder", "file", "link", "hidden"]
    at: Annotated[str, Meta(max_length=4096)]
    owner: User = 0
    account: User = 0
    filesystem: Annotated[str, Meta(max_length=4096)] = ""
    mark: Annotated[str, Meta(max_length=200)] = ""
    empty: bool = False

    def __str__(self) -> str:
        if self.kind != "folder":
            words = {"absent": "does not exist", "file": "is not a folder", "link": "is a symbolic link"}
            return f"{self.at} {words.get(self.kind, 'cannot be looked at')}"
        return f"a folder of user {self.owner} on {self.filesystem or 'an unknown file system'}"


class ToldNode(Shape, frozen=True, kw_only=True):
    """A node, as far as verbs on jobs and `cp` need it."""

    name: Word
    status: NodeStatus
    labels: Mapping[str, str]
    mounts: tuple[Mount, ...]


class ToldNetwork(Shape, frozen=True, kw_only=True):
    """A network of the cluster's own."""

    name: Word
    labels: Mapping[str, str]


class ClusterNodes(Document, frozen=True, kw_only=True, tag="gpuprov.cluster-nodes/v1"):
    """What an engine of a host has of a cluster; told to other hosts alone.

    Attributes:
        host: Name of the host.
        command: The engine's own client.
        capabilities: What the engine can.
    """

    host: Word
    engine: Engine
    command: Word
    capabilities: tuple[Word, ...]
    nodes: tuple[ToldNode, ...]
    networks: tuple[ToldNetwork, ...]


class NodeRun(Document, frozen=True, kw_only=True, tag="gpuprov.node-run/v1"):
    """What came of a command in a node; told to other hosts alone.

    Attributes:
        host: Name of the host.
        exit_code: Of the command.
        stdout: What it printed, compressed by zlib.
        stderr: The same of stderr.
    """

    host: Word
    exit_code: Annotated[int, Meta(ge=-255, le=255)]
    stdout: bytes
    stderr: bytes


class PlannedHost(Shape, frozen=True, kw_only=True):
    """The answer to `plan` for a part of a cluster.

    Attributes:
        plan: A line for each change.
        kept: A line for each node that stays though the spec does not have it.
        older: A line for nodes with an older image that lacks the same.
        unlimited: A line for nodes that stay without limits of processes and memory.
        whole: The host's nodes as they would be.
        secret: What they share now; empty where there is none.
    """

    plan: tuple[Words, ...]
    kept: tuple[Words, ...] = ()
    older: tuple[Words, ...]
    unlimited: tuple[Words, ...]
    whole: WholeCluster
    secret: bytes


class HostLosses(Shape, frozen=True, kw_only=True):
    """The answer to `losses`.

    Attributes:
        lines: In words; none where there is nothing.
        busy: Why it is refused, where jobs would end that nobody has said are to.
    """

    lines: tuple[Words, ...]
    busy: Refusal | None = None


class Created(Shape, frozen=True, kw_only=True):
    """The answer to `create`.

    Attributes:
        whole: The host's nodes of the cluster.
    """

    changed: tuple[Words, ...]
    whole: WholeCluster


class Sought(Shape, frozen=True, kw_only=True):
    """The answer to `seek`.

    Attributes:
        part: What `part` would answer, which is read as that.
        secret: What the nodes share; empty where there is none.
    """

    part: Raw
    secret: bytes


class FoundParts(Shape, frozen=True, kw_only=True):
    """The answer to `find`: by cluster what `part` would answer, which is read as that."""

    parts: Mapping[str, Raw]


class OverlayKey(Shape, frozen=True, kw_only=True):
    """The answer to `key`."""

    key: TunnelKey
