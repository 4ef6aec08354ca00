"""One node: all that its engine knows of it, and what its console said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, field

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.limits import GIB
from gpuprov.shapes.words import Size

LOCALLY, EVERYWHERE = "127.0.0.1", "0.0.0.0"  # noqa: S104 - where a forwarded port of the host may listen
Port = Annotated[int, Meta(ge=1, le=65535)]
NodeStatus = Literal["running", "stopped", "frozen", "error"]


class NodeLimits(Shape, frozen=True, kw_only=True):
    """What a node may use of its host; null where nothing limits it, and of what the engine was told in other words.

    Attributes:
        processes: Threads included.
    """

    processes: Size | None = None
    memory_bytes: Size | None = None
    cpus: Size | None = None

    @property
    def words(self) -> str:
        """All three."""
        processes = f"{self.processes} processes" if self.processes else "processes without limit"
        memory = f"{self.memory_bytes / GIB:.1f} GiB of memory" if self.memory_bytes else "memory without limit"
        cpus = f"{self.cpus} CPU{'s' if self.cpus > 1 else ''}" if self.cpus else "all CPUs"
        return f"{processes}, {memory}, {cpus}"


class CharDevice(Shape, frozen=True, kw_only=True):
    """A character device in the node."""

    path: str
    major: int
    minor: int
    mode: int = 0o666


class Mount(Shape, frozen=True, kw_only=True):
    """A file or folder of the host that appears in the node at `target`."""

    source: str
    target: str
    read_only: bool = True


class Attachment(Shape, frozen=True, kw_only=True):
    """One network interface of a node.

    Attributes:
        network: Name of the bridge.
        interface: Name inside the node, `eth0` or `eth1`.
        kind: `veth` (reaches host and outside) or `macvlan` (reaches other nodes only).
        address: Static IPv4 address with prefix length, such as `10.0.3.2/24`.
        mac: Fixed MAC address.
        gateway: Default route, or None.
    """

    network: str
    interface: str
    kind: Literal["veth", "macvlan"]
    address: str
    mac: str
    gateway: str | None = None


class Exposure(Shape, frozen=True, kw_only=True):
    """A port of the host that leads to a port of the node."""

    host_port: Port
    node_port: Port
    listen: str = LOCALLY


class Setting(Shape, frozen=True, kw_only=True):
    """One of the engine's own settings that gpuprov made, in words.

    Attributes:
        live: Whether it can be changed while the node runs.
    """

    value: str
    live: bool = True


Settings = Mapping[str, Setting]


class ShownNode(Shape, frozen=True, kw_only=True):
    """A node.

    Attributes:
        host: Name of the host that it is on.
        labels: Without the engine's prefix.
        addresses: Interface to address, as its configuration has them, also while it is stopped.
        environment: As its configuration sets it, without that of its image.
        settings: The engine's own settings that gpuprov made.
    """

    name: str
    status: NodeStatus
    labels: Mapping[str, str] = {}
    addresses: Mapping[str, str] = {}
    devices: tuple[CharDevice, ...] = ()
    mounts: tuple[Mount, ...] = ()
    exposed: tuple[Exposure, ...] = ()
    snapshots: tuple[str, ...] = ()
    privileged: bool = False
    environment: Mapping[str, str] = {}
    settings: Mapping[str, Setting] = {}
    limits: NodeLimits = field(default_factory=NodeLimits)
    host: str = ""


class Node(Document, frozen=True, kw_only=True, tag="gpuprov.node/v1"):
    """The document of `gpuprov show --json`: all that the engine knows of a node.

    Attributes:
        host: Name of the host.
    """

    host: str
    node: ShownNode


class Logs(Document, frozen=True, kw_only=True, tag="gpuprov.logs/v1"):
    """The document of `gpuprov logs --json`.

    Attributes:
        host: Name of the host.
        log: What its console said.
    """

    host: str
    node: str
    log: str
