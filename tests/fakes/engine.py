"""The state of a fake engine: what several drivers share, and what outlives a killed one."""

from __future__ import annotations

import pickle
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ROLE, NO_TERMS, ROLE_BUILDER, ExecResult, JobTerms, NodeState
from gpuprov.drivers.networks import NetworkState
from gpuprov.shapes.engine import ImageState, Origin
from gpuprov.shapes.node import NodeLimits, Setting
from tests.fakes.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.drivers.base import File
    from gpuprov.shapes.engine import EngineCluster
    from gpuprov.shapes.node import Attachment, CharDevice, Exposure, Mount, NodeStatus, Settings

_GIB = 1024**3


@dataclass(kw_only=True)
class FakeNode:
    """An instance; one without the label gpuprov.cluster is foreign, and a `job` goes when its command ends.

    Attributes:
        made_as: The name that it was made with: what has another one was copied or renamed by somebody else.
        member: On which other member of the engine's cluster it is; empty for one that is here.
        marks: When its command began (True) or ended, where it is a job.
    """

    name: str
    status: NodeStatus = "stopped"
    labels: dict[str, str] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    devices: tuple[CharDevice, ...] = ()
    mounts: tuple[Mount, ...] = ()
    files: dict[str, File] = field(default_factory=dict)
    exposed: tuple[Exposure, ...] = ()
    snapshots: dict[str, dict[str, Any]] = field(default_factory=dict)
    privileged: bool = False
    cpus: int | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    job: bool = False
    argv: tuple[str, ...] = ()
    terms: JobTerms = NO_TERMS
    made_as: str = ""
    member: str = ""
    marks: list[tuple[float, bool]] = field(default_factory=list)

    @property
    def builder(self) -> bool:
        """Whether an image is being made in it."""
        return self.labels.get(LABEL_ROLE) == ROLE_BUILDER and self.origin is None

    @property
    def origin(self) -> Origin | None:
        """Whose labels it has, where they are not its own."""
        cluster = self.labels.get(LABEL_CLUSTER)
        made_as = self.made_as or self.name
        return Origin(name=made_as, cluster=cluster) if cluster and made_as != self.name else None

    @property
    def limits(self) -> NodeLimits:
        """What it may use."""
        return NodeLimits(processes=self.processes, memory_bytes=self.memory_bytes, cpus=self.cpus)

    def state(self) -> NodeState:
        """As a driver shows it."""
        if self.member:
            return NodeState(name=self.name, status=self.status, host=self.member, member=self.member)
        return NodeState(
            id=str(id(self)),
            name=self.name,
            status=self.status,
            labels={} if self.origin else {key: value for key, value in self.labels.items() if value},
            copy_of=self.origin,
            addresses={attachment.interface: attachment.address for attachment in self.attachments},
            devices=self.devices,
            mounts=self.mounts,
            exposed=self.exposed,
            snapshots=tuple(self.snapshots),
            privileged=self.privileged,
            environment=self.environment,
            settings=describe_settings(self.attachments, privileged=self.privileged, limits=self.limits),
            limits=self.limits,
        )


def describe_settings(attachments: tuple[Attachment, ...], *, privileged: bool, limits: NodeLimits) -> Settings:
    """A node's settings; limits are live, the rest needs a restart."""
    shown = {
        attachment.interface: Setting(value=f"{attachment.kind} on {attachment.network}, {attachment.mac}", live=False)
        for attachment in attachments
    }
    addresses = ",".join(attachment.address for attachment in attachments)
    shown["addresses"] = Setting(value=addresses, live=False)
    shown["privileged"] = Setting(value=str(privileged), live=False)
    known = {"processes": limits.processes, "memory": limits.memory_bytes, "cpus": limits.cpus}
    return shown | {key: Setting(value=str(limit)) for key, limit in known.items() if limit}


@dataclass(kw_only=True)
class FakeImage:
    """An image; `ours` where gpuprov made it, `base` where it is an imported root file system."""

    id: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, File] = field(default_factory=dict)
    ours: bool = True
    base: bool = False

    def state(self) -> ImageState:
        """As a driver shows it."""
        return ImageState(id=self.id, name=self.name, labels=dict(self.labels))


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command to answer, and the node as it was when the command came."""

    node: FakeNode
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str | None
    timeout_s: float | None
    stdin: bytes = b""


def succeed(_command: Command) -> ExecResult:
    """Any command ends well and says nothing."""
    return ExecResult(exit_code=0, stdout="", stderr="")


@dataclass(kw_only=True)
class FakeEngine:
    """Everything a fake engine holds.

    Attributes:
        answer: What commands in nodes say; may be called from several threads at once.
        faults: What goes wrong, and where.
        gone: Paths that the host has not got (any more): nothing that mounts one starts.
        stubborn: What an engine says that it had to force, by node.
        snapshot_pauses: Whether nodes stand still while a snapshot is taken.
        first_user: Which user of the host root of a node is, in what is mounted; None if it is not reported.
        cluster: The cluster of its own that it is a member of.
        tars: What a node gives in place of a path's tar, by that path.
        remembered: Jobs that began, also those that are gone, until the engine forgets them.
        lock: Held while the state changes.
    """

    nodes: dict[str, FakeNode] = field(default_factory=dict)
    networks: dict[str, NetworkState] = field(default_factory=dict)
    images: dict[str, FakeImage] = field(default_factory=dict)
    cpus: int = 8
    memory_bytes: int = 32 * _GIB
    free_bytes: int | None = 100 * _GIB
    answer: Callable[[Command], ExecResult] = succeed
    faults: Faults = field(default_factory=Faults)
    gone: set[str] = field(default_factory=set)
    stubborn: dict[str, str] = field(default_factory=dict)
    snapshot_pauses: bool = False
    first_user: int | None = 0
    cluster: EngineCluster | None = None
    tars: dict[str, bytes] = field(default_factory=dict)
    remembered: list[FakeNode] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def dump(self) -> dict[str, Any]:
        """A copy of all state, to compare before with after."""
        with self.lock:
            state = {"nodes": self.nodes, "networks": self.networks, "images": self.images}
            copy: dict[str, Any] = pickle.loads(pickle.dumps(state))  # far sooner than asdict
            return copy

    def end_jobs(self) -> None:
        """Let the commands end whose callers were killed, and their nodes go."""
        with self.lock:
            for node in self.nodes.values():
                if node.job:
                    node.marks.append((time.time(), False))
            self.nodes = {name: node for name, node in self.nodes.items() if not node.job}

    def copy(self, name: str, copy: str, *, status: NodeStatus = "stopped") -> None:
        """What `lxc copy` does: everything but the name is the same."""
        node = self.nodes[name]
        self.nodes[copy] = replace(
            node, name=copy, status=status, labels=dict(node.labels), made_as=node.made_as or name
        )

    def rename(self, name: str, other: str) -> None:
        """What `lxc rename` does."""
        self.copy(name, other, status=self.nodes[name].status)
        del self.nodes[name]

    def add_foreign_node(self, name: str, *, status: NodeStatus = "stopped") -> None:
        """An instance that gpuprov did not create."""
        self.nodes[name] = FakeNode(name=name, status=status)

    def add_foreign_network(self, name: str, *, address: str | None = None, managed: bool = True) -> None:
        """A network that gpuprov did not create."""
        self.networks[name] = NetworkState(name=name, managed=managed, address=address)
