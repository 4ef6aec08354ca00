"""Every GPU of a host and who holds it, and what of that changes."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.base import Document, PartDocument, Shape, Version
from gpuprov.shapes.choices import Engine, Sharing
from gpuprov.shapes.error import ErrorParts
from gpuprov.shapes.nodes import HostStatus
from gpuprov.shapes.words import GpuUuid, Moment, Number, Plain, Size, Word, Words


class Mig(Shape, frozen=True, kw_only=True):
    """The numbers of a MIG instance; null if the whole GPU is leased.

    Attributes:
        profile: Such as `1g.10gb`; only of an instance of which NVML tells it.
    """

    enabled: bool | None
    index: Number | None
    gpu_instance: Number | None
    compute_instance: Number | None
    profile: Plain | UnsetType = UNSET


class ToldGpu(Shape, frozen=True, kw_only=True):
    """A GPU or a MIG instance; all but its UUID is null where the host does not have it any more, or cannot be asked.

    Attributes:
        uuid: Of the GPU, or of the MIG instance.
        label: Name on the command line: `3`, or `3:0` for a MIG instance.
        index: NVML's index.
        minor: The number in /dev/nvidia<minor>.
    """

    uuid: GpuUuid
    label: Plain | None
    index: Number | None
    minor: Number | None
    device: Plain | None
    pci: Plain | None
    mig: Mig
    model: Plain | None
    memory_bytes: Size | None
    compute_capability: Annotated[str, Meta(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}\Z")] | None


class Holder(Shape, frozen=True, kw_only=True):
    """Who holds a GPU.

    Attributes:
        host: Name of the host that it is on.
        status: A node that is not running still holds its GPUs.
    """

    node: Word
    host: Word
    cluster: Word
    engine: Word
    status: Word
    sharing: Sharing


class HeldGpu(ToldGpu, frozen=True, kw_only=True):
    """A GPU with its holders.

    Attributes:
        host: There where hosts were added: name of its host.
        present: False if the GPU is held but not visible on this host; then all but uuid, mig, sharing and holders are
            null, and so is everything in mig.
        sharing: Null while it is free.
    """

    host: Word | UnsetType = UNSET
    present: bool
    driver: Word | None
    simulated: bool | None
    sharing: Sharing | None
    holders: tuple[Holder, ...]

    def __post_init__(self) -> None:
        """Refuse a GPU that is there and lacks what every GPU has."""
        lacks = [name for name in ("index", "minor", "pci", "model") if getattr(self, name) is None]
        if self.present and lacks:
            raise ValueError(f"a GPU that exists has no {lacks[0]}")


class ForeignGpuUse(Shape, frozen=True, kw_only=True):
    """A running instance that gpuprov did not create and that can open GPUs without a lease.

    Attributes:
        host: Name of the host that it is on.
        copy_of: The node that it is a copy of.
        devices: Device nodes of GPUs in it.
    """

    node: Word
    host: Word
    engine: Engine
    copy_of: Word | None
    devices: tuple[Word, ...]


class ToldLostGpu(Shape, frozen=True, kw_only=True):
    """A GPU that is there and cannot be used; leases avoid it.

    Attributes:
        host: There where hosts were added: name of its host.
        index: NVML's.
        why: In the driver's words.
    """

    host: Word | UnsetType = UNSET
    index: Number | None
    minor: Number | None
    pci: Word | None
    uuid: Word | None
    model: Word | None
    why: Words


class SilentEngine(ErrorParts, frozen=True, kw_only=True):
    """An engine that is installed but does not respond; the GPUs that it holds are unknown."""

    engine: Engine


class BoardOfHost(PartDocument, frozen=True, kw_only=True, tag="gpuprov.gpus/v1"):
    """Every GPU of a host and its holders, as a part of what else the host says.

    Attributes:
        host: Name of the host.
        simulated: Whether the host's GPUs are simulated.
        reason: Source of the facts, or why the GPUs are simulated.
        driver: Version of the NVIDIA driver, or of the profile if simulated; empty where hosts differ.
        gpus: GPUs that can be leased, in NVML's order; then GPUs that are held but not present.
        waiting: Waiting requests, in order.
    """

    host: Word
    simulated: bool
    reason: Words
    driver: Word
    gpus: tuple[HeldGpu, ...]
    foreign: tuple[ForeignGpuUse, ...]
    waiting: tuple[Words, ...]
    lost: tuple[ToldLostGpu, ...]
    silent: tuple[SilentEngine, ...]


class Gpus(BoardOfHost, frozen=True, kw_only=True, tag="gpuprov.gpus/v1"):
    """The document of `gpuprov gpus --json`: every GPU of the host, or of all hosts that were added, and its holders.

    Attributes:
        hosts: There where hosts were added: each of them.
        error: There where some hosts did not answer.
    """

    version: Version = 1
    hosts: tuple[HostStatus, ...] | UnsetType = UNSET
    error: ErrorParts | UnsetType = UNSET


class GpuChange(Shape, frozen=True, kw_only=True):
    """What is other than in the round before.

    Attributes:
        kind: `held` and `released` are about one holder; `came` and `gone` about a GPU; `driver`, `silent`,
            `answers`, `error` and `recovered` about the host.
        uuid: Of the GPU or MIG instance; null where the change is about the host.
        label: How people name the GPU; null where the change is about none, or it is not there.
        holder: Who took or released the GPU.
        text: The driver's version, the engine, or why.
    """

    kind: Literal["held", "released", "came", "gone", "driver", "silent", "answers", "error", "recovered"]
    uuid: str | None = None
    label: str | None = None
    holder: Holder | None = None
    text: str | None = None


class GpusWatch(Document, frozen=True, kw_only=True, tag="gpuprov.gpus-watch/v1"):
    """A line of `gpuprov gpus --watch --json` after the first, which is a gpuprov.gpus/v1.

    Attributes:
        host: Name of the host.
        at: When it was looked at, in UTC.
    """

    at: Moment
    host: str
    changes: Annotated[tuple[GpuChange, ...], Meta(min_length=1)]
