"""One node: all that its engine knows of it, and what its console said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.limits import GIB
from gpuprov.shapes.words import Size

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


class ShownDevice(Shape, frozen=True, kw_only=True):
    """A character device in the node."""

    path: str
    major: int
    minor: int
    mode: int


class ShownMount(Shape, frozen=True, kw_only=True):
    """A file or folder of the host that appears in the node at `target`."""

    source: str
    target: str
    read_only: bool


class ShownExposure(Shape, frozen=True, kw_only=True):
    """A port of the host that leads to a port of the node."""

    host_port: Port
    node_port: Port
    listen: str


class ShownSetting(Shape, frozen=True, kw_only=True):
    """One of the engine's own settings that gpuprov made.

    Attributes:
        live: Whether it can be changed while the node runs.
    """

    value: str
    live: bool


class ShownNode(Shape, frozen=True, kw_only=True):
    """A node.

    Attributes:
        host: Name of the host that it is on.
        addresses: Interface to address.
        settings: The engine's own settings that gpuprov made.
    """

    name: str
    status: NodeStatus
    labels: Mapping[str, str]
    addresses: Mapping[str, str]
    devices: tuple[ShownDevice, ...]
    mounts: tuple[ShownMount, ...]
    exposed: tuple[ShownExposure, ...]
    snapshots: tuple[str, ...]
    privileged: bool
    environment: Mapping[str, str]
    settings: Mapping[str, ShownSetting]
    limits: NodeLimits
    host: str


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
