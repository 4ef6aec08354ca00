"""`record`: the facts of a host from which its GPUs are told; machine/record.py takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.base import PartDocument, Shape
from gpuprov.shapes.words import GpuUuid, Number, Size

HostFile = Annotated[str, Meta(pattern=r"^(proc|sys)/")]
DevicePath = Annotated[str, Meta(pattern=r"^/dev/nvidia")]


class RecordedMig(Shape, frozen=True, kw_only=True):
    """A MIG instance."""

    uuid: GpuUuid
    gpu_instance: Number
    compute_instance: Number
    memory_bytes: Size


class RecordedGpu(Shape, frozen=True, kw_only=True):
    """A GPU."""

    uuid: GpuUuid
    index: Number
    minor: Number
    pci: str
    model: str
    memory_bytes: Size | UnsetType = UNSET
    compute_capability: tuple[Number, Number] | UnsetType = UNSET
    mig: tuple[RecordedMig, ...] | UnsetType = UNSET


class RecordedLoss(Shape, frozen=True, kw_only=True):
    """A GPU that NVML lists and cannot tell.

    Attributes:
        pci: Empty if NVML does not report it.
        code: Of NVML's error.
    """

    index: int
    pci: str
    code: int
    why: str


class NvmlError(Shape, frozen=True, kw_only=True):
    """Why NVML cannot be asked."""

    code: int
    call: str
    text: str


class RecordedNvml(Shape, frozen=True, kw_only=True):
    """NVML's answers, or its error.

    Attributes:
        lost: GPUs that NVML lists and cannot tell; absent where there is none.
    """

    error: NvmlError | UnsetType = UNSET
    driver_version: str | UnsetType = UNSET
    cuda_driver_version: int | UnsetType = UNSET
    gpus: tuple[RecordedGpu, ...] | UnsetType = UNSET
    lost: tuple[RecordedLoss, ...] | UnsetType = UNSET


class RecordedDevice(Shape, frozen=True, kw_only=True):
    """A device node."""

    kind: Literal["char", "block", "file", "folder", "other"]
    major: Number
    minor: Number
    mode: Annotated[str, Meta(pattern=r"^[0-7]{4}\Z")]


class Record(PartDocument, frozen=True, kw_only=True, tag="gpuprov.record/v1"):
    """The document of `gpuprov record`: the facts that describe a host's GPUs.

    Attributes:
        gpuprov: Version of gpuprov.
        files: Path below the root to text.
        nvml: Null where there is no such library.
    """

    gpuprov: str
    kernel: str | None
    cgroup: Literal["v1", "v2", "hybrid", "none"]
    files: Mapping[HostFile, str]
    modeset: bool
    libraries: tuple[Annotated[str, Meta(pattern=r"^/")], ...]
    nvidia_smi: str | None
    devices: Mapping[DevicePath, RecordedDevice]
    nvml: RecordedNvml | None
