"""A specification of the Container Device Interface, as far as gpuprov writes it, and the document of `gpuprov cdi`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.base import Document, Shape

DeviceName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?\Z")]
AbsolutePath = Annotated[str, Meta(pattern=r"^/")]
Permissions = Literal["rw"]  # an engine that is told nothing grants `m` too, with which a container makes more devices


class CdiNode(Shape, frozen=True, kw_only=True, rename="camel"):
    """A device node of a container.

    Attributes:
        type: Of a device that the host need not have in /dev; absent where the engine looks at that of the host.
    """

    path: AbsolutePath
    type: Literal["c"] | UnsetType = UNSET
    major: int | UnsetType = UNSET
    minor: int | UnsetType = UNSET
    file_mode: int | UnsetType = UNSET
    permissions: Permissions = "rw"


class CdiMount(Shape, frozen=True, kw_only=True, rename="camel"):
    """A file of the host in a container."""

    host_path: AbsolutePath
    container_path: AbsolutePath
    options: tuple[str, ...] = ("ro", "nosuid", "nodev", "rbind", "rprivate")


class CdiEdits(Shape, frozen=True, kw_only=True, rename="camel"):
    """What a container gets. There are no hooks: they would run on the host."""

    env: tuple[str, ...] | UnsetType = UNSET
    device_nodes: tuple[CdiNode, ...] | UnsetType = UNSET
    mounts: tuple[CdiMount, ...] | UnsetType = UNSET


class CdiDevice(Shape, frozen=True, kw_only=True, rename="camel"):
    """What can be asked for by name."""

    name: DeviceName
    container_edits: CdiEdits


class CdiSpec(Shape, frozen=True, kw_only=True, rename="camel"):
    """One file in /etc/cdi.

    Attributes:
        container_edits: Of every container that gets one of the devices.
    """

    cdi_version: str
    kind: str
    devices: Annotated[tuple[CdiDevice, ...], Meta(min_length=1)]
    container_edits: CdiEdits


class Cdi(Document, frozen=True, kw_only=True, tag="gpuprov.cdi/v1"):
    """The document of `gpuprov cdi --json`.

    Attributes:
        file: Where `--write` writes it.
        simulated: Whether its GPUs are.
        spec: What the file has.
    """

    host: str
    file: str
    simulated: bool
    spec: CdiSpec
